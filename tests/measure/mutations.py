"""The lines of the product that mutants.py breaks, and what each becomes."""

from collections.abc import Iterator
from dataclasses import dataclass

from measure.mutated_origins import ORIGINS


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """A line without its indentation, and what it becomes."""

    area: str
    line: str
    becomes: str


def _of(area: str, *pairs: tuple[str, str]) -> Iterator[Mutant]:
    return (Mutant(area=area, line=line, becomes=becomes) for line, becomes in pairs)


MUTANTS: tuple[Mutant, ...] = (
    *_of(
        "declared",
        ("dependencies=None if has_agent else [company_wide(declared.verb)],", "dependencies=None,"),
        ('if declared.confirms or {"confirmation", "decision"} & {*offered.said}:', "if False:"),
        ("takes[each] = Annotated[Any, Depends(finders[each](declared.verb))]", "pass"),
        ('if "agent_id" in defaults and "agent_id" not in in_path:', "if False:"),
        ("given |= {each: _SAID[each](caller, body) for each in offered.said}", "pass"),
    ),
    *_of("origins", *ORIGINS),
    *_of(
        "distrust",
        ("if self.hidden.keeps_unmerged(record.entry):", "if False:"),
        ("if part.replace is not None and not unmerged.isdisjoint(part.ids):", "if False:"),
        ("if opened.hidden is None or shows_all():", "if True:"),
        ("and self.source in {None, entry.metadata.source}", ""),
        ("and self.session_id in {None, entry.session_id}", ""),
        ("return (self.since is None or at >= self.since) and (self.until is None or at < self.until)", "return True"),
        ("made |= {new for task, new in learned if task in level}", "pass"),
        ("if view.returned:", "if False:"),
        ("if not first.origin.is_within(origin) or first.memory_id in distrusted:", "if False:"),
        ("self.is_of(entry.agent_id)", "True"),
        ("found |= level", "pass"),
        ("return {old: each.booking_id for old, each in gone.items() if not deleted[each.booking_id]}", "return {}"),
        (
            'lead_on = [each for each in derivations if each.reason == "consolidated" or not rule.follows_origin]',
            "lead_on = []",
        ),
        ("hold_back(store.snapshot, journal, [each.entry.id for each in some])", "pass"),
        ("if distrust.lifted_at is not None:  # a person was faster", "if False:"),
        ("if going_on := [each.run_id for each in runs if each.state in OPEN_STATES]:", "if going_on := []:"),
        ("*_range(Key.CREATED_TS, at_least=rule.since, below=rule.until),", ""),
        ("overtaken |= stays", "pass"),
        ("if last is not None and last.read_of == read_of:", "if last is not None:"),
        ("self._last[distrust_id] = agent_id", "pass"),
    ),
    *_of(
        "model servers",
        ("if body == plain:", "if True:"),
        ("if trial.learnt != known:", "if False:"),
        ("if trial.is_sure:", "if False:"),
        ("if until is not None and refused is not None and self._clock() < until:", "if False:"),
        ("if request.whole:", "if False:"),
        ("if text.size > longest:", "if False:"),
        ("is_kept = self._context_tokens is None", "is_kept = True"),
        (
            "mine = equals(model_servers, company=company, model=model, server=server)",
            "mine = equals(model_servers, company=company, model=model)",
        ),
        (
            'text="".join(part.text or "" for part in parts if part.type == "output_text"),',
            'text="".join(part.text or "" for part in parts),',
        ),
        ("budgets=BudgetsConfig(tokens_per_agent_per_day=None),", "budgets=policy.memory.budgets,"),
        ("return cls(status=answer.status, kind=kind, code=code)", "pass"),
    ),
    *_of(
        "answers",
        ("return [each for each in named if verdicts.get(id_of(each)) is Verdict.SUPERSEDES]", "return named"),
        ("unsure = tuple(key for key, verdict in verdicts.items() if verdict is Verdict.UNSURE)", "unsure = ()"),
        ("pair = (new, each) if each.created_at > new.created_at else (each, new)", "pair = (each, new)"),
        ("is_possible = is_of_today(new.evidence_quote, year=old.created_at.year)", "is_possible = True"),
        ("if not any(isinstance(given.get(name), list | tuple) for name in forms):", "if False:"),
        ("if refused and not any(entries for entries, _ in read.values()):", "if False:"),
        ("if not scanner.is_cut and scanner.at < len(text):", "if scanner.at < len(text):"),
        ("if not scanner.is_cut and scanner.at < len(text):", "if not scanner.is_cut:"),
        ("at = max(scanner.at, opening.end())", "at = opening.end()"),
        ('return label.casefold() in {"", "json"} and not after.strip(_MARKS)', "return True"),
        ('return "".join(kept if is_open else [*kept, text[at:]])', 'return "".join([*kept, text[at:]])'),
        ("if _SENTENCE.search(between) or _INNER_NEGATION.search(between):", "if _INNER_NEGATION.search(between):"),
        ("if not _TELLING.isdisjoint(words) or (behind and _GOES_ON.match(behind)):", "if False:"),
        ("candidate = guards.in_own_words(quoted, user_text=user_text)", "candidate = quoted"),
        (
            "earlier = or_(turns.c.at < turn.at, and_(turns.c.at == turn.at, turns.c.turn_id < turn.turn_id))",
            "earlier = turns.c.turn_id != turn.turn_id",
        ),
        ("is_of_kind = is_of_subject and new.category == known.category", "is_of_kind = False"),
        ("is_like = is_of_subject and (cosine >= LEAST_COSINE or shared >= LEAST_SHARED)", "is_like = False"),
        ("left -= sum(map(estimated_tokens, around))", "pass"),
        ("about = (turn.person, turn.agent)", "about = (content,)"),
    ),
    *_of(
        "questions",
        ("if self._retrieval.record_queries:", "if True:"),
        ("recorded = islice(self._asked_before(sources, content, shadow.rarity), MOST_RECORDED)", "recorded = ()"),
        ("self._query_recorder = query_recorder if config.record_queries else None", "self._query_recorder = None"),
        ("if not job_context.policy.memory.retrieval.record_queries:", "if False:"),
        ("older = table.query_id.in_(newest.offset(MOST_QUERIES))", "older = table.query_id.in_([])"),
        ("where=insert.excluded.asked_at > table.asked_at,", "where=None,"),
        ("ledger.recorded_queries.expire(company, before=now - asked)", "del asked"),
        ("if self._queries.get(key) is query:", "if key in self._queries:"),
    ),
    *_of(
        "lessons",
        (
            "if own.memory_id is None and _kind(row) == _kind(mine) and repeats(first):",
            "if own.memory_id is None and repeats(first):",
        ),
        ("order = (is_repeated, *self._newest_by)", "order = self._newest_by"),
        ('"propagated_at": self._clock() if is_known else None,', '"propagated_at": None,'),
        ("if not await self.backend.get_many(agent_id, [memory_id]):", "if False:"),
        ("if trajectory.outcome.is_interruption and trajectory.recovery is None:", "if False:"),
        ("return min(most, max(least, confidence))", "return max(least, confidence)"),
        ("return tuple(sorted(weighed, key=best_first))", "return tuple(memories)"),
        ("found = _taught(snapshot, found)", "found = list(found)"),
        (
            "failed = trajectories.c.error_category.is_not(None) & trajectories.c.outcome.not_in(INTERRUPTIONS)",
            "failed = trajectories.c.error_category.is_not(None)",
        ),
    ),
    *_of(
        "asking",
        ("if not finding.is_strong:", "if not finding.memories:"),
        ("return grounds.fault(text, own_words=0.0) is None", "return grounds.fault(text) is None"),
        ("if not written.known or not written.sentences:", "if not written.sentences:"),
        (
            "numbers = dict.fromkeys(number for number in each.passages if 1 <= number <= len(finding.memories))",
            "numbers = range(1, len(finding.memories) + 1)",
        ),
        ("is_superseded=all(memory.entry.superseded_at is not None for memory in cited),", "is_superseded=False,"),
        ("strong = [each for each in found if each.entry.standing in {Standing.STRONG, None}]", "strong = [*found]"),
        ("return NoSentences.NOT_SAID if is_repeated else [*kept.values()]", "return [*kept.values()]"),
        ("return kept if verdict.answers else NoSentences.NOT_SAID", "return kept"),
        ("if not memories and degraded:", "if False:"),
        ("async with asyncio.timeout(finding.asked.timeout_seconds):", "async with asyncio.timeout(None):"),
        ("self._settle(call_id, CallState.FAILED, None, tries, by=by)", "pass"),
        (
            "if any(year in {0, on.year} and month == on.month and day in {0, on.day} for on in self.dated):",
            "if False:",
        ),
        ("with breaking_off(self.address), closing(response):", "with closing(response):"),
    ),
    *_of(
        "search notes",
        (
            'return None if payload is None else (payload.get(Key.DATA, ""), payload.get(SEARCH_NOTES_KEY))',
            'return None if payload is None else payload.get(Key.DATA, "")',
        ),
        ("if error.status_code != HTTPStatus.NOT_FOUND:", "if True:"),
        (
            "if (notes := _search_notes(fields.get(SEARCH_NOTES_KEY))) != entry.search_notes:",
            "if notes := _search_notes(fields.get(SEARCH_NOTES_KEY)):",
        ),
        ("dense = np.where(means.any(axis=1, keepdims=True), _unit(dense + _unit(means)), dense)", "pass"),
        ("is_other = (notes * texts).sum(axis=1) <= (notes @ others.T).mean(axis=1)", "is_other = is_foreign"),
        (
            'return None if self.policy.search_notes.enabled else "memory.consolidation.search_notes.enabled is false"',
            "return None",
        ),
        ("(any(map(str.isdigit, word)) or (has_names and written[:1].isupper())) and word not in said", "False"),
    ),
    *_of(
        "changes",
        ("is_possible = may_be_replaced(old, new, kept_tags=[self.core_tag])", "is_possible = True"),
        ("return again if again in {None, Verdict.SUPERSEDES} else Verdict.UNSURE", "return verdict"),
        ("and old.metadata.source == new.metadata.source", "and True"),
        ("return not is_of_another and _begins_with_known(old, new) and is_of_today(new, year=year)", "return True"),
        ("return {_first_word(old), _first_word(new)} <= _SELF", "return True"),
        ("return narrowed is None or known.issuperset(_tokenizer.terms(narrowed[1])[:1])", "return True"),
        ("is_asked = not telling.isdisjoint(earlier)", "is_asked = True"),
        ("is_of_new = not asked & later <= earlier", "is_of_new = False"),
        ("return _PAST.search(fold(new)) is None and not (years and max(years) < year)", "return True"),
        (
            "likely = [each for each in found if _is_older(each, new) and (each.id, new.id) not in known]",
            "likely = [each for each in found if _is_older(each, new)]",
        ),
        ("and new.last_stated_at - old.last_stated_at >= APART", "and new.last_stated_at > old.last_stated_at"),
        ("if pair.state not in {GroupState.APPROVED, GroupState.UNDONE}:", "if pair.state is not GroupState.APPROVED:"),
        ("extra[SUPERSEDES_KEY] = [each for each in record.supersedes if each not in found]", "pass"),
        (
            "mine = equals(table, company=company, agent_id=agent_id, strategy=CHANGES, decided_by=run_id)",
            "mine = equals(table, company=company, agent_id=agent_id, strategy=CHANGES)",
        ),
        ("if new.agent_id in watched.barred or new.namespace in watched.erased_people:", "if False:"),
    ),
    *_of(
        "languages",
        ("further += [term for term in self._label_terms(label) if term not in said]", "pass"),
        (
            "return list(zip(dense, self.encoder.encode_documents(texts, list(map(label_of, entries))), strict=True))",
            "return list(zip(dense, self.encoder.encode_documents(texts), strict=True))",
        ),
        (
            "names = [_words(name) for name in (remark.role, remark.speaker) if name]",
            "names = [_words(name) for name in (remark.role,) if name]",
        ),
        ("words = [word for word in words if not is_function_word(word, language)] or words", "pass"),
        ("weight = 1.0 if len(plain) == 1 else _OWN_STEM_WEIGHT if place else 1.0 - _OWN_STEM_WEIGHT", "weight = 1.0"),
        ("exact = [EXACT + word for word in exact_words(text)]", "exact = []"),
        (
            "halfway = K1 * (1.0 - _B + _B * len(plain) / _AVERAGE_TERMS)",
            "halfway = K1 * (1.0 - _B + _B * len(plain + further) / _AVERAGE_TERMS)",
        ),
        ("if said[language] <= sum(map(ENGLISH_STOP_WORDS.__contains__, words)):", "if False:"),
        ("return [each for each in forms if not says_nothing(each[0])] or forms", "return forms"),
        (
            "shared = [[forms for forms in weights if not terms.isdisjoint(forms)] for terms in having]",
            "shared = [[forms for forms in weights if forms[0] in terms or forms == _TIME] for terms in having]",
        ),
        (
            "if target.identity == pointer.current.identity and not (again or pointer.current.has_old_terms):",
            "if target.identity == pointer.current.identity:",
        ),
    ),
    *_of(
        "evidence",
        (
            "return _evidence_of(sentences, candidates[:MOST_JUDGED], noise=noise, parts=_parts(question))",
            "return _evidence_of(sentences, candidates, noise=noise, parts=_parts(question))",
        ),
        ("return share**2 * max(_LEAST_ODDS, 1.0 - answered) / answered", "return 0.0"),
        ("sentences += [_with_time(each, asked) for each in _judged_sentences(question)]", "pass"),
        ("sparse=self._words(subject) if has_sparse else None,", "sparse=self._words(text) if has_sparse else None,"),
        (
            "sentences = [] if asked is not None and asked.rest is not None else _weighed(question)",
            "sentences = _weighed(question)",
        ),
        ("own = own_gain if near == 1.0 else soon_gain", "own = own_gain"),
        ("if is_answered and (scores[key] >= near or is_alone or is_asked_for):", "if is_answered:"),
        (
            "if is_answered and (scores[key] >= near or is_alone or is_asked_for):",
            "if is_answered and scores[key] >= near:",
        ),
        ("is_asked_for = own is not None and own.is_in_time and own.words >= most_words", "is_asked_for = False"),
        (
            "elif place < MOST_WEAK and scores[key] >= _NEAR_WEAK * best and own is not None and not own.is_foreign:",
            "elif scores[key] >= _NEAR_WEAK * best and own is not None and not own.is_foreign:",
        ),
        (
            "by_owner.setdefault(entry.agent_id, []).append((entry, score))",
            "by_owner.setdefault(ranked[0][0].agent_id, []).append((entry, score))",
        ),
        ("left_out = weak[MOST_WEAK if shown.has(Standing.WEAK) else 0 :]", "left_out = weak[MOST_WEAK:]"),
        ("one.add(within)", "del within"),
        ('text = value if name == "content" and _begins_with(value, text) else text + value', "text += value"),
        (
            "weights.update({forms: _NAMED for forms in weights if not named.isdisjoint(forms)})",
            "weights.update({forms: 1.0 for forms in weights if not named.isdisjoint(forms)})",
        ),
        ("return evidence * math.sqrt(max(0.0, share))", "return math.sqrt(max(0.0, share))"),
        ("if meant and not any(word in _plurals(other) for other in meant):", "if meant:"),
        ("if not word.isascii():", "if False:"),
        ("and each.last_stated_at > best.last_stated_at", "and each.last_stated_at != best.last_stated_at"),
        ("return text.rstrip(_CLOSING).endswith(_QUESTION_MARKS)", "return True"),
        (
            "return any(words and asked.issuperset(words) for words in (source, *speakers))",
            "return any((source, *speakers))",
        ),
        ("return bool(role & _USER) and not asked.isdisjoint(_ME)", "return bool(role & _USER)"),
        ("is_answer = size <= _ANSWER_BYTES and _asks(remarks[before].text)", "is_answer = True"),
        ("and scores[newer] >= _NEAR * scores[older]", "and True"),
        ("if said := terms & asked:", "if said := asked:"),
        ("following[session] += 1", "following[session] += 0"),
        ("for each in sorted(records, key=lambda each: each.entry.created_at):", "for each in records:"),
    ),
    *_of(
        "grounding",
        ("size = statement.parts + 1", "size = len(self._said)"),
        ("words = (*_content(said), *exact, *_telling(said, language))", "words = (*exact, *_telling(said, language))"),
        ("words = (*_content(said), *exact, *_telling(said, language))", "words = (*_content(said), *exact)"),
        ("and all(any(words in each.in_order for each in said) for words in self.short)", "and True"),
        ("and (not self.is_denial or any(each.is_denial for each in said))", "and True"),
        ("text = completed(found.text, sources)", "text = found.text"),
        ("whole = completed(found.text, [source])", "whole = found.text"),
        ("if self._acts(plain):", "if False:"),
        ("if said := self._of_itself(plain):", "if said := None:"),
        ("if not self._asked.isdisjoint(_runs(words)):", "if False:"),
        ("if any(not self._has_identifier(chunk) for chunk in plain.split()):", "if False:"),
        ("if any(self._is_unknown_name(each, language) for each in capitals(plain)):", "if False:"),
        ("if self.denies(plain, is_advice=kind is Kind.ADVICE):", "if False:"),
        ("if self._has_too_many_words(plain, language, own_words):", "if False:"),
        ("is_known = (month, day) in self.days if day else month in self.months", "is_known = True"),
        ('if unit and units and "" not in units and unit not in units:', "if False:"),
        ("if (fault := question.fault(answer.text)) is not None:", "if (fault := None) is not None:"),
        ("return None if _is_grounded(candidate, turn, grounds) else Guard.UNGROUNDED", "return None"),
        ("if (fault := grounds.fault(form.summary)) is not None:", "if (fault := None) is not None:"),
        (
            "found = [(sentence, grounds.fault(sentence)) for sentence in sentences]",
            "found = [(sentence, None) for sentence in sentences]",
        ),
        (
            'fault = ungrounded("\\n".join(texts), _sources_of(payload), instructions=_FORM, kind=Kind.ADVICE)',
            "fault = None",
        ),
        (
            "found = [(question, grounds.fault(question, kind=Kind.QUESTION)) for question in answer.questions]",
            "found = [(question, None) for question in answer.questions]",
        ),
    ),
    *_of(
        "gate",
        (
            'config = self._retrieval.model_copy(update={"zoom": False}) if is_written else self._retrieval',
            "config = self._retrieval",
        ),
        ("is_found = is_shown and (not is_written or await self._is_searched(probe, shadow))", "is_found = is_shown"),
        ("missed = [probe for probe in probes if probe not in kept]", "missed = list[Probe]()"),
        ("is_refused = has_failed or bool(broken) or figures.loss > self._config.max_loss", "is_refused = has_failed"),
        ("has_failed |= failed_before", "has_failed |= False"),
        (
            "return not answers or any(terms is None or not answers.isdisjoint(terms) for terms in said)",
            "return not answers or any(terms is None for terms in said)",
        ),
    ),
    *_of(
        "succession",
        (
            "if old.id == new.id or (old.superseded_at is not None and old.superseded_at > new.last_stated_at):",
            "if False:",
        ),
        ("if old.stated_at is not None and old.stated_at > new.last_stated_at:", "if False:"),
        ("if entry.superseded_at is not None and entry.superseded_at < at:", "if False:"),
        ("best[newer] = max(best[newer], scores[key])", "best[newer] = best[newer]"),
        ("return _behind_successors(dict(scores), of_then)", "return dict(scores)"),
        ("best[key] = min(best[key], _BEHIND * best[chains[key][0]])", "best[key] = best[key]"),
        ("found.put_beside({str(row.id): row.payload or {} for row in rows})", "return"),
        ("if missing := len(stored.supersedes) - await mark_superseded(self.backend, stored):", "if missing := 0:"),
        (
            "return not any(third not in (old, new) and shared <= self._terms[third].words for third in thirds)",
            "return bool(thirds)",
        ),
    ),
    *_of(
        "proposals",
        (
            "return len(sources) == len(group.source_ids) and _seen(sources, kept) == group.seen",
            "return len(sources) == len(group.source_ids)",
        ),
        (
            "return [group for group, key in zip(groups, keys, strict=True) if key not in dismissed]",
            "return list(groups)",
        ),
        (
            (
                "is_adopted = bool(ledger.journal.removed_by_run(run.run_id, group.source_ids)) "
                "or await _adopted(store, group)"
            ),
            "is_adopted = await _adopted(store, group)",
        ),
        (
            "if (is_fallback or draft.same_as is not None) and not (is_refused or proposes):",
            "if (is_fallback or draft.same_as is not None) and not is_refused:",
        ),
        (
            'return (limit or 0) - removed["consolidated"] - removed["enforced"]',
            'return (limit or 0) - removed["consolidated"]',
        ),
        ('if run.kind == "undo" or is_over or run.state in {WorkState.HELD, WorkState.DISMISSED}:', "if is_over:"),
    ),
    *_of(
        "journal",
        ("if {each.booking_id for each in removals_of(connection, planned_removal)} - mine - set(known):", "if False:"),
        (
            'put(connection, tombstones, [{"memory_id": each, **new} for each in sorted(journal_entry.outgoing_ids)])',
            "pass",
        ),
        ("for part in id_chunks(journal_entry.incoming_ids):", "for part in ():"),
        (
            'return frozenset(row["memory_id"] for row in rows if row["buried_at"] >= sent[row["memory_id"]])',
            'return frozenset(row["memory_id"] for row in rows if row["buried_at"] > sent[row["memory_id"]])',
        ),
        ("_void(connection, booking_id, missing_out, ~incoming)", "pass"),
        ('query = query.values(state="done", settled_at=now)', "query = query.values(settled_at=now)"),
        (
            "self._journal.prepare(*decided, known=known, watched=watched)",
            "self._journal.prepare(*decided, known=None, watched=watched)",
        ),
        ("if without_tombstone := self._tombstoned(incoming) - tombstoned:", "if without_tombstone := frozenset():"),
    ),
    *_of(
        "contexts",
        ("idle = [name for name, each in self._slots.items() if not each.users]", "idle = list(self._slots)"),
        ("if len(self._slots) > self._most:", "if False:"),
        ("if policy is slot.context.policy:", "if True:"),
        ("closing = [slot] if not slot.users and self._slots.get(company) is not slot else []", "closing = []"),
        (
            "if company == self.settings.company and self.ledger.companies.get(company) is None:",
            "if self.ledger.companies.get(company) is None:",
        ),
        ("return _dead_letter(task, letter, shared.ledger)", "return _dead_letter(self, letter, None)"),
    ),
    *_of(
        "leases",
        (
            "is_free = work_items.c.token.is_(None) | (work_items.c.lease_until <= _NOW)",
            "is_free = work_items.c.company.is_not(None)",
        ),
        (
            "if not move(connection, event, is_item(name, token=token), now=now, **values):",
            "if not move(connection, event, is_item(name), now=now, **values):",
        ),
        (
            "its = and_(is_item(self._name(_COMPANY, _KEY), token=_TOKEN if is_fenced else None), *which)",
            "its = and_(is_item(self._name(_COMPANY, _KEY)), *which)",
        ),
        ("return (both.with_for_update(of=self._table),)", "return (both,)"),
        ("if self._lost or self._monotonic() >= self._ends:", "if self._lost:"),
        (
            "self._ends = asked + self._length.total_seconds()",
            "self._ends = self._monotonic() + self._length.total_seconds()",
        ),
        ("self._lost = True", "self._lost = False"),
        ("attempt = work_items.c.attempt - int(is_unused)", "attempt = work_items.c.attempt"),
        ('move(connection, "wake", these, now=now)', "pass"),
        ("if known.state is WorkState.FAILED and known.run_id != run_id:", "if known.state is WorkState.FAILED:"),
        ('return f"{self._lease.token}.{self._claims}"', 'return "mark"'),
    ),
    *_of(
        "attempts",
        ("case MaintenancePausedError() | MemoryDiskFullError():", "case MaintenancePausedError():"),
        ("return self.wait(str(error), ANSWER_DELAY)", "return self.wait(str(error), PAUSE_DELAY)"),
        ("return self.wait(str(error), error.until)", "return self.wait(str(error), PAUSE_DELAY)"),
        ("case MemoryError() if not error.is_retryable:", "case MemoryError():"),
        ("if most is not None and record.attempt > most:", "if False:"),
        ("if most is not None and record.attempt > most:", "if most is not None and record.attempt >= most:"),
        (
            "self._work.release(self._company, self._key, self.token, after=self._retry.delay(attempt), reason=reason)",
            "self._work.release(self._company, self._key, self.token)",
        ),
        (
            "self._work.wait(self._company, self._key, self.token, until=until, reason=reason, is_unused=True)",
            "self._work.wait(self._company, self._key, self.token, until=until, reason=reason)",
        ),
        (
            "return min(self.first_delay * (1 << min(attempt - 1, _DELAY_DOUBLINGS)), self.longest_delay)",
            "return self.first_delay * (1 << min(attempt - 1, _DELAY_DOUBLINGS))",
        ),
        ("return is_known", "return True"),
        ("except (LeaseLostError, MemoryNotFoundError) as lost:", "except LeaseLostError as lost:"),
        ("self._renewals.close()", "pass"),
        ("if self._record is None or not isinstance(error, Exception):", "if self._record is None or error is None:"),
        ("waits = [part.key for part in parts if part.is_open][:DISPATCHED_AT_ONCE]", "waits = []"),
        ("due &= work_items.c.key.in_(keys)", "pass"),
    ),
    *_of(
        "isolation",
        (
            "return Filter(must=[owned_by, *conditions], must_not=list(but_not) or None)",
            "return Filter(must=[*conditions], must_not=list(but_not) or None)",
        ),
        (
            "body: Any = to_upsert(made, dims=dims, mode=UpdateMode.INSERT_ONLY, payload_of=payload_of)",
            "body: Any = to_upsert(made, dims=dims, mode=UpdateMode.UPSERT, payload_of=payload_of)",
        ),
        ("if target is None or agent_id not in {None, target.agent_id}:", "if target is None:"),
        ("wanted = [runs.c.company == company]", "wanted = []"),
        (
            "unasked = tuple(_equal(Key.SHARED_BY, agent_id) for agent_id in sorted(excluded_agents(exclude_agent)))",
            "unasked = ()",
        ),
        ("narrowed = narrower(matching, with_ids(ids))", "narrowed = Filter(must=[with_ids(ids)])"),
        (
            "return self._loaded((bookings.c.company == company) & (bookings.c.agent_id == agent_id) & OPEN)",
            "return self._loaded((bookings.c.agent_id == agent_id) & OPEN)",
        ),
    ),
    *_of(
        "fallbacks",
        (
            "if FALLBACK_TAG not in entry.metadata.tags or entry.updated_at is not None:",
            "if FALLBACK_TAG not in entry.metadata.tags:",
        ),
        ("return entry.id == made", "return True"),
        ("if archived.issuperset(each.lineage.summary_of)", "if True"),
        ("return tuple(out) if len(out) == len(behind) else ()", "return tuple(out)"),
        ("if draft is None or (is_fallback and FALLBACK_TAG in draft.tags):", "if draft is None:"),
        (
            (
                "if now - left >= policy.min_new "
                "or [groups async for _, groups in _fallbacks(snapshot, strategy) if groups]:"
            ),
            "if now - left >= policy.min_new:",
        ),
        (
            "left -= sum(len(group.members) for group in groups if not group.is_fallback)",
            "left -= sum(len(group.members) for group in groups)",
        ),
        ("shadow.hide([fallback_id])", "shadow.hide([])"),
        ("taken = {CONSOLIDATED_TAG} if len(group.source_ids) == 1 else set()", "taken = set()"),
        (
            "if deleted_since(ledger, journal_entry) or rewritten_since(ledger, journal_entry):",
            "if deleted_since(ledger, journal_entry):",
        ),
        (
            'merges = merges.union(deeper.where(removed.c.kind == "removed"))',
            "merges = merges.union(select(merges.c.booking_id))",
        ),
    ),
    *_of(
        "undo",
        (
            ".where(bookings.c.prepared_at > at, bookings.c.run_id.not_in(sorted(not_by)))",
            ".where(bookings.c.prepared_at < at, bookings.c.run_id.not_in(sorted(not_by)))",
        ),
        (
            "if deleted_since(ledger, journal_entry) or rewritten_since(ledger, journal_entry):",
            "if rewritten_since(ledger, journal_entry):",
        ),
        ("may_go=lambda record: is_untouched(record, came[record.entry.id]),", "may_go=lambda record: True,"),
        ("if place >= start:", "if True:"),
        ("back_ids -= await store.there(sorted(back_ids))", "pass"),
        ("hold_back(store.snapshot, journal, back_ids)", "pass"),
        (
            "for place, journal_entry in enumerate(journal.journal_entries(target.run_id, newest_first=True)):",
            "for place, journal_entry in enumerate(journal.journal_entries(target.run_id, newest_first=False)):",
        ),
        ('return [row for row in newest_first if row["booking_id"] not in cancelled]', "return list(newest_first)"),
    ),
    *_of(
        "batch writer",
        ("if item.id not in items or item.sent_at > items[item.id].sent_at:", "if item.id not in items:"),
        ("self._isolate(batch, error)", "self._fail(batch, error)"),
        ("pending.future.set_result(written.of(pending.items))", "pending.future.set_result(written)"),
        ("while count < self._max_items and size < self._max_bytes:", "while count < self._max_items:"),
        ("if self._is_closed and not self._queues:", "if self._is_closed:"),
        (
            "is_bulk = pending.count > self._bulk_above or pending.size > BULK_BYTES",
            "is_bulk = pending.count > self._bulk_above",
        ),
    ),
    *_of(
        "work items",
        (
            "is_free = work_items.c.token.is_(None) | (work_items.c.lease_until <= _NOW)",
            "is_free = work_items.c.key != ''",
        ),
        (
            "is_free = work_items.c.token.is_(None) | (work_items.c.lease_until <= _NOW)",
            "is_free = work_items.c.token.is_(None)",
        ),
        (
            'given = {"fresh_token": ids.new_id(), "lease_until": self._clock() + lease}',
            'given = {"fresh_token": "the token", "lease_until": self._clock() + lease}',
        ),
        ('"attempt": work_items.c.attempt + 1,', '"attempt": work_items.c.attempt,'),
        (
            'return equals(work_items, **name._asdict(), **({} if token is None else {"token": token}))',
            "return equals(work_items, **name._asdict())",
        ),
        ("if transition.target is not WorkState.LEASED:", "if False:"),
        ('row |= {"finished_at": _NOW, "dispatch_after": None}', 'row |= {"finished_at": _NOW}'),
        ('"dispatch_after": _with_message(_LEASE_UNTIL),', ""),
        (
            "return update(work_items).where(which, work_items.c.state.in_(transition.sources)).values(row | values)",
            "return update(work_items).where(which).values(row | values)",
        ),
        (
            '"replay": Transition(ENDED_STATES, WorkState.AVAILABLE),',
            '"replay": Transition((*_ENDED, *_READY), WorkState.AVAILABLE),',
        ),
        (
            '"dismiss": Transition((*_READY, WorkState.HELD), WorkState.DISMISSED),',
            '"dismiss": Transition((WorkState.LEASED, *_READY, WorkState.HELD), WorkState.DISMISSED),',
        ),
        (
            "agents_turn = func.row_number().over(partition_by=(of.company, of.agent_id), order_by=at)",
            "agents_turn = func.row_number().over(partition_by=(of.company,), order_by=at)",
        ),
        (
            "companys_turn = func.row_number().over(partition_by=each.c.company, order_by=order)",
            "companys_turn = func.row_number().over(order_by=order)",
        ),
        ("query = select(work_items).where(due).with_for_update(skip_locked=True)", "query = select(work_items)"),
        (
            '"dispatch_after": now + REDISPATCH_AFTER * 2 ** min(dispatches, _REDISPATCH_DOUBLINGS),',
            '"dispatch_after": now + REDISPATCH_AFTER * 2**dispatches,',
        ),
        (
            '"dispatch_after": now + REDISPATCH_AFTER * 2 ** min(dispatches, _REDISPATCH_DOUBLINGS),',
            '"dispatch_after": None,',
        ),
        (
            "due = and_(OPEN_WORK, work_items.c.dispatch_after <= now, is_wanted)",
            "due = and_(work_items.c.dispatch_after <= now, is_wanted)",
        ),
        ("add_new(connection, self._table, [rows[key] for key in sorted(added)])", "pass"),
        ("connection.execute(delete(work_items).where(found, work_items.c.key.in_(keys)))", "pass"),
    ),
    *_of(
        "transport",
        ("redis.call('HDEL', KEYS[1], unpack(ARGV, first_tag))", "-- forgotten"),
        ("redis.call('ZADD', KEYS[2], now, tag)", "-- forgotten"),
        (
            "redis.call('RPUSH', is_sorted and list .. ':owners:' .. company .. ':' .. agent or list, raw)",
            "-- forgotten",
        ),
        ("if not known[messages] then enter(list, company, agent) end", "-- forgotten"),
        ("self._waiting.extendleft(reversed(self._sent))", "pass"),
        ("free: int = self.prefetch_count - (len(self._delivered) - len(self._dirty))", "free = self.prefetch_count"),
        (
            "wanted = self.qos.window() if queues and not self._inbox else 0",
            "wanted = self.qos.window() if queues else 0",
        ),
        ('payload["headers"]["redelivered"] = True', "pass"),
        ("for tag in reversed(tuple(self._delivered)):", "for tag in tuple(self._delivered):"),
    ),
    *_of(
        "local models",
        (
            "self._await_ready([member for member in stage if member.part.is_awaited and not member.is_asleep])",
            "self._await_ready([member for member in stage if not member.is_asleep])",
        ),
        ("if file.read(len(_MAGIC)) != _MAGIC:", "if False:"),
        ("unset = {name: value for name, value in own.items() if name not in self.model_fields_set}", "unset = own"),
        ('stack = {name: value for name, value in stack.items() if name != "llm_local"}', "pass"),
        ("known = 0 if first is None else max(0, (today - max(since, first)).days)", "known = days"),
        ("if own_words(candidate.evidence_quote, without_quoted(user_text)) is None:", "if False:"),
        (
            "return Guard.ASKED if is_fact and _is_asked(candidate.evidence_quote, user_text) else None",
            "return Guard.ASKED if _is_asked(candidate.evidence_quote, user_text) else None",
        ),
        ("if cues.SUPPOSED.search(plain(sentence)):", "if False:"),
        ("elif _is_hearsay(candidate, user_text):", "elif False:"),
        ("if is_beside and own_words(quote, reported) is None:", "if False:"),
        ("if not Words(before).shared_with(Words(candidate.subject)):", "if True:"),
        ("own = without_quoted(user_text)", "own = user_text"),
        ("return not marks and len(passage.split()) < _WORDS_OF_A_PASSAGE", "return False"),
        ("if not (isinstance(value, int) and value > LARGEST_LIMITS.get(name, value))", "if True"),
        ("asked = 0 if row is None else row.calls - row.asked_again", "asked = 0 if row is None else row.calls"),
    ),
    *_of(
        "third review",
        (
            "return max(0.0, 1.0 - upper_bound(usual_hits, usual) / rate, rate - lower_bound(usual_hits, usual))",
            "return max(0.0, 1.0 - upper_bound(usual_hits, usual) / rate)",
        ),
        ("if found is not None or key is None:", "if True:"),
        ("await self._require_version(current, memory_id if expected is None else expected)", "pass"),
        ("and not (retention.removed or enforcement.removed)", "and True"),
        ("self._refuse_loss(client)", "pass"),
        ("return any(propagated_tag(agent) in entry.metadata.tags for agent in self.agents)", "return False"),
        ("return [name for name, (_, seconds) in signs.items() if now - seen[name][1] > seconds]", "return []"),
        (
            "member.part.name: ((member.pid, touched), FROZEN_SECONDS if member.was_ready else STARTING_SECONDS)",
            "member.part.name: ((member.pid, touched), FROZEN_SECONDS)",
        ),
        (
            "member.part.name: ((member.pid, touched), FROZEN_SECONDS if member.was_ready else STARTING_SECONDS)",
            "member.part.name: ((member.pid, touched), STARTING_SECONDS)",
        ),
        (
            "outages = self._outages[name] = min(self._outages.get(name, 0) + 1, _MOST_OUTAGES)",
            "outages = self._outages[name] = self._outages.get(name, 0) + 1",
        ),
        (
            "if name not in seen or seen[name][0] != sign or now - looked_at > seconds / 2:",
            "if name not in seen or seen[name][0] != sign:",
        ),
        ("return FROZEN_SECONDS if was_ready else STARTING_SECONDS", "return STARTING_SECONDS"),
        ("return FROZEN_SECONDS if was_ready else STARTING_SECONDS", "return FROZEN_SECONDS"),
        ("self._beside()", "pass"),
        ("if question.subject != text and not is_there:", "if False:"),
        ('scope["path"] = _SLASH.join(map(unquote, parts))', "pass"),
        ("if child.ppid() == os.getpid() and child.status() != psutil.STATUS_ZOMBIE:", "if True:"),
        ("children.show_life()", "pass"),
        ("if delay <= FAILED_DELAY and _may_wait(task, delay):", "if False:"),
        ("waits_in_hand = job.retry_after < IN_HAND", "waits_in_hand = True"),
        ("self._history.dropped(ids)", "(self._delete(matching, ids), self._history.dropped(ids))"),
        ("if not (isinstance(error, errors.MemoryConnectionError) and _may_wait(self, job.retry_after)):", "if True:"),
        ("if is_stale(task.request):", "if False:"),
        ("if trial is not None and self._trial is trial:", "if False:"),
    ),
)
