"""The lines of doors that mutants.py breaks beside those of mutations.py, which is as long as a file may be."""

from measure.mutations import MUTANTS as OTHERS
from measure.mutations import Mutant

MEMORY_TESTS = (
    ("if not any(map(named.names, shown)):", "if False:"),
    ("if first >= second:", "if False:"),
    ("return self.text is not None and folded(self.text) in said", "return self.text in said"),
    ('return any(map(matcher(self.pattern).match, said.split("\\n")))', "return False"),
    ("if _REGULAR.search(pattern):", "if False:"),
    ('if "(?!)" in matcher(pattern).pattern:', "if False:"),
    ("if any(text in said for text in self._texts) or any(each.is_said(said) for each in self._patterns):",
     "if any(text in said for text in self._texts):"),
    ("if test.authority is not None:", "if False:"),
    ("raise MemoryConnectionError(f\"no answer of: {', '.join(remembered.degraded)}\")", "pass"),
    ("if self._errors_in_a_row < MOST_ERRORS:", "if True:"),
    ("if (test.agent, test.name) in found:", "if False:"),
    ('return _NOT_XML.sub("", text)', "return text"),
    ("return self.passes and (bool(self.test.shows_not) or any(failures(self.test, left)))", "return False"),
    ("return not self.passes and self._wanted.are_among(sources, said)", "return False"),
    (
        "return self._tight is not None and shadow.may_pass(self.test.question, summary.id, before=self._tight)",
        "return False",
    ),
    (
        "self._texts = {each.id: each.content for each in entries}",
        "self._texts = {each.id: each.id for each in entries}",
    ),
    ("if named.isdisjoint(tests):", "if True:"),
    ("sums = {name: saved.get(name, 0) + count for name, count in added.items()}", "sums = added"),
    ('self.ledger.runs.add_counts(self.company, run_id, {"tests_asked": len(results), **found})', "pass"),
    ("raise typer.Exit(EXIT_FAILED if report.failed else EXIT_INPUT)", "raise typer.Exit(EXIT_FAILED)"),
)  # fmt: skip

EVALUATION = (
    ("tokens = _joined(tokens, exact)", "pass"),
    ("return self.reading is _recently", "return False"),
    ("if self.is_vague:", "if False:"),
    ('scores["shown_wrongly"] = float(any(entry.standing is not Standing.WEAK for entry in entries))', "pass"),
    ('scores["stale_first"] = float(first in stale)', 'scores["stale_first"] = 0.0'),
    ('return "better" if (apart.low > 0.0) is is_more_better else "worse"', 'return "better"'),
    ("if twice:", "if False:"),
    ("clock.set(question)", "pass"),
    ('chosen = {"memory": {**memory, "embedder": {"provider": embedder}}}', 'chosen = {"memory": memory}'),
    ("found.sort(key=lambda each: not each.was_right)", "pass"),
    ("return (self._now or utc_now()) + self._later", "return self._now or utc_now()"),
    ("self._replaced |= {gone.entry.id: _heir(gone, each.incoming[0]) for gone in each.outgoing}", "pass"),
    ("os.close(take_over(home))", "pass"),
    ("fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)", "pass"),
    ("storage.pop(name, None)", "pass"),
    ('"finds": [] if is_unanswerable else marked or sessions,', '"finds": marked or sessions,'),
)

WHAT_IF = (
    ("if waits is not None or plan.is_held:", "if waits is not None:"),
    (
        "return self.summary is not None and self.is_written and not (self.verdict and self.verdict.is_refused)",
        "return True",
    ),
    ("return (*alike, *(each for one in alike for each in self._replaced.get(one, ())))", "return alike"),
    (
        "over = await evicted(snapshot, value, excess, gone=replaced, drafts=coming)",
        "over = await evicted(snapshot, value, excess, gone=(), drafts=coming)",
    ),
    (
        "return self.live - len(self.gone.keys() - made) + len(made - self.gone.keys())",
        "return self.live - len(self.gone)",
    ),
    ("shadow.hide([each for each, step in outlook.gone.items() if step is not RunStep.CONSOLIDATION])", "pass"),
    ("stands_for |= {each.entry.id: summary.entry.id for each in draft.found}", "pass"),
)

CHARTS = (
    ('return _NO_XML.sub("\\N{REPLACEMENT CHARACTER}", fenced(text))', "return text"),
    ("return next((power * each for each in (1, 2, 4, 6, 8) if power * each >= most), power * 10)", "return most / 2"),
    ('"role": "group" if is_linked else "img",', '"role": "img",'),
    (".where(KEPT, bookings.c.settled_at >= since)", ".where(KEPT)"),
    ("order = list(dict.fromkeys([*held, *failed, *(row.agent_id for row in moved_first)]))[:most]",
     "order = list(dict.fromkeys(row.agent_id for row in moved_first))[:most]"),
    ("if found is None or memory_id in layers or len(layers) >= MOST_NODES:",
     "if found is None or memory_id in layers:"),
    ('raise MemoryNotFoundError("agent: is being erased; see `memtend erase list`")', "pass"),
)  # fmt: skip

SEARCH_LAB = (
    ("now = await _ranking(lambda query: service.memories.search(agent, query), asked, service.policy)",
     "now = await _ranking(lambda query: service.engine.search(agent, query.text), asked, service.policy)"),
    ("then = await _ranking(lambda query: service.memories.search_as(agent, query, tried), asked, tried)",
     "then = await _ranking(lambda query: service.memories.search(agent, query), asked, tried)"),
    ("with searching_by(plans(policy.memory)):", "with searching_by(plans(self._resources.policy.memory)):"),
    ('always = query.model_copy(update={"min_authority": Authority.QUARANTINED}).under(self._authorities)',
     "always = query"),
    ('asked = always.model_copy(update={"min_authority": query.min_authority}).under(authorities)',
     "asked = always"),
    ("if len(text) > MOST_POLICY_CHARS:", "if False:"),
)  # fmt: skip

EDITS = (
    ("new = await service.memories.update(agent_id, memory_id, expected=memory_id, **changed, **decider)",
     'new = await service.memories.update(agent_id, memory_id, expected="*", **changed, **decider)'),
    ('named = form.agent(caller, Verb.WRITE), form.text("id")',
     'named = form.agent(caller, Verb.READ), form.text("id")'),
    ("caller.require(Verb.READ, agent_id=named[0])", "pass"),
    ("if (await _shown(service, agent_id, memory_id)).id != memory_id:", "if False:"),
    ("differing = {name: value for name, value in typed.items() if value != lines(was[name])}", "differing = typed"),
    ("left_out = {ATTRIBUTES_KEY, VALIDITY_KEY, *((SEARCH_NOTES_KEY, COMPARED_KEY) if is_new_text else ())}",
     "left_out = {ATTRIBUTES_KEY, *((SEARCH_NOTES_KEY, COMPARED_KEY) if is_new_text else ())}"),
    ("then=then,", "then=service.policy,"),
    ("return await to_thread(lambda: build_policy(read_document(text), base=in_force))",
     "return await to_thread(lambda: build_policy(read_document(text)))"),
)  # fmt: skip

ROUTER = (
    ("if user is None and session is None:", "if False:"),
    ("caller.require(verb, agent_id=agent)", "pass"),
    ('authorization = None if is_router else headers.get("authorization")',
     'authorization = headers.get("authorization")'),
    ("if name not in left_out and name not in named and not name.startswith(OWN):", "if name not in left_out:"),
    ("return await self._client(upstream.url).send(request, stream=True, follow_redirects=False)",
     "return await self._client(upstream.url).send(request, stream=True, follow_redirects=True)"),
    ("if not self._is_whole or not self._is_readable or self._goes_on:", "if not self._is_readable:"),
    ("if name not in config.upstreams:", "if False:"),
    ("if dialect is None and (request.method, path) not in _PLAIN:", "if False:"),
    ('if not isinstance(content, list) or any(_kind(each) == "tool_result" for each in content):',
     "if not isinstance(content, list):"),
    ("is_read = dialect is not None and found.status_code == HTTPStatus.OK", "is_read = dialect is not None"),
    ("name = hashlib.blake2b(turn.body.encode(), digest_size=16).hexdigest()", "name = None"),
    ("except Exception as error:  # noqa: BLE001  # whatever is wrong here, the person gets the model's answer",
     "except TimeoutError as error:"),
    ('limit = max(self._limit, MAX_ROUTED_BYTES) if scope["path"].startswith(ROUTER) else self._limit',
     "limit = self._limit"),
)  # fmt: skip

WATCHING = (
    ('away.append("ledger")', "raise"),
    ("order = (work_items.c.started_at, runs.c.run_id)", "order = (work_items.c.started_at.desc(), runs.c.run_id)"),
    ("return age is not None and age > frozen_seconds(ready, alive) and named is not None and same_process(*named)",
     "return age is not None and age > frozen_seconds(ready, alive)"),
    ("while now - looks[0][0] > RATE_SECONDS and len(looks) > 2:  # noqa: PLR2004  # a rate is of two looks",
     "while False:"),
    ("table.add_row(*(plain(cell(value), style) for value in values))", "table.add_row(*map(str, values))"),
    ("return plain(cell(task.description))", "return Text.from_markup(task.description)"),
    ("redirect_stdout=False,", "redirect_stdout=True,"),
    ("disable=is_silent or not sys.stderr.isatty(),", "disable=is_silent,"),
    ("self._at_present(samples, [company])", "pass"),
    ('state="does not answer" if state_of == "ready" and name in silent else state_of,', "state=state_of,"),
)  # fmt: skip

MUTANTS: tuple[Mutant, ...] = (
    *OTHERS,
    *(Mutant(area="router", line=line, becomes=becomes) for line, becomes in ROUTER),
    *(Mutant(area="watching", line=line, becomes=becomes) for line, becomes in WATCHING),
    *(Mutant(area="memory tests", line=line, becomes=becomes) for line, becomes in MEMORY_TESTS),
    *(Mutant(area="search lab", line=line, becomes=becomes) for line, becomes in SEARCH_LAB),
    *(Mutant(area="edits", line=line, becomes=becomes) for line, becomes in EDITS),
    *(Mutant(area="charts", line=line, becomes=becomes) for line, becomes in CHARTS),
    *(Mutant(area="evaluation", line=line, becomes=becomes) for line, becomes in EVALUATION),
    *(Mutant(area="what if", line=line, becomes=becomes) for line, becomes in WHAT_IF),
)
