"""The lines of origins, and of what a person raises, that mutants.py breaks."""

ORIGINS = (
    ("if known.reaches(least):", "if known is not Authority.QUARANTINED:"),
    (
        "return max(asked, least, reader.least or least, _LEAST.get(least), key=lambda each: each.rank)",
        "return asked",
    ),
    ("return is_shown(self.origin, policy, self.raised)", "return True"),
    ("return authority(origin, policy, raised).reaches(least_shown(Authority.QUARANTINED))", "return True"),
    (
        "return true() if set(authors) >= EVERYBODY else or_(false(), *(is_human == each for each in authors))",
        "return true()",
    ),
    ("return by if view.marks or not view.rules else by & ~_is_distrusted(table, view.rules)", "return by"),
    (
        "return by if view.marks or not view.rules else by & ~_is_distrusted(table, view.rules)",
        "return by & ~_is_distrusted(table, view.rules)",
    ),
    (
        "lambda: self._log.facts(self._company, categories=only, offset=offset, view=self._log.view(self._company)),",
        "lambda: self._log.facts(self._company, categories=only, offset=offset),",
    ),
    ('by = {} if principal is None else {"principal": principal}', "by: dict[str, str] = {}"),
    ("by_id = {key: each for key, each in by_id.items() if each.entry.is_shown(authorities)}", "pass"),
    ("if waiting >= most_waiting:", "if False:"),
    ("if self.approvals.waits(approval):", "if True:"),
    ("return any(each in lower for each in _IN_EACH)", "return False"),
    ("if not self.may_claim(channel):", "if False:"),
    ("return Origin(channels=(*origin.channels, Channel.SUSPECT), principals=origin.principals)", "return origin"),
    ("record.stamped(writer)", "pass"),
    ("return Origin(channels=given.channels, principals=(*given.principals, by))", "return given"),
    ("if self.limit is Channel.PERSON or not given.principals:", "if True:"),
    ("origin.channels[0] in _COUNTED", "origin.channels[0] is not Channel.AGENT"),
    ("and authority(origin, self.authorities) is Authority.REFERENCE", ""),
    ("and not (record.lineage.summary_of or record.supersedes)", "and not record.lineage.summary_of"),
    ("and not (record.lineage.summary_of or record.supersedes)", "and not record.supersedes"),
    ("and not hidden.may_distrust(entry.agent_id, entry.id, origin)", ""),
    ("if origin is None or len(origin.principals) != 1 or len(origin.channels) != 1:", "if origin is None:"),
    ("if seen.isdisjoint(by):", "if True:"),
    (
        "is_enough = len(chosen) >= config.least and len({_origin(each).channels for each in chosen}) > 1",
        "is_enough = len(chosen) >= config.least",
    ),
    (
        "is_enough = len(chosen) >= config.least and len({_origin(each).channels for each in chosen}) > 1",
        "is_enough = len({_origin(each).channels for each in chosen}) > 1",
    ),
    (
        "return not any(hidden.may_distrust(agent_id, each.memory_id, each.origin) for each in self._witnesses[key])",
        "return True",
    ),
    ("return await self._settled(found)", "return found"),
    (
        "about = (entry.category, entry.namespace, record.lineage.project_id, canonical_json(entry.attributes))",
        "about = ()",
    ),
    (
        "return None if self.principal is None and self.limit is Channel.PERSON else self.origin(self.limit)",
        "return None",
    ),
    (
        '"origin": Origin.of(each.origin for each in promoted.candidates),',
        '"origin": promoted.candidates[0].origin,',
    ),
    ("same = _rivals(each, alike, authorities)", "same = alike"),
    (
        "return max(asked, least, reader.least or least, _LEAST.get(least), key=lambda each: each.rank)",
        "return max(asked, least, _LEAST.get(least), key=lambda each: each.rank)",
    ),
    (
        "return least if raised is None or least.reaches(raised.to) else raised.to",
        "return least if raised is None else raised.to",
    ),
    ("return trusted.reaches(Authority.INFORM) or trusted.reaches(authority(old, policy, raised))", "return True"),
    ("if raised is None or not raised.is_for(entry.content):", "if raised is None:"),
    (
        "return entry.id in self.raised.get(entry.agent_id, ()) or self.distrusts_memory(entry)",
        "return self.distrusts_memory(entry)",
    ),
    ("if state != ApprovalState.APPROVED.value:", "if False:"),
    ("current_writer().require_person()", "pass"),
    (
        "return [memory_id for memory_id, each in raised.items() if each.to.reaches(query.min_authority)]",
        "return [*raised]",
    ),
    (
        "return tuple(each for each in shown if each.raised or not came_through(each.origin, apart))",
        "return shown",
    ),
    ("tag = TAG_REFERENCE if is_apart else TAG_MEMORY_ENTRY", "tag = TAG_MEMORY_ENTRY"),
    ("ordered = sorted(memories, key=lambda each: each.is_reference)", "ordered = memories"),
    ('tag = TAG_REFERENCE if "via" in entry else TAG_PERSON_MEMORY', "tag = TAG_PERSON_MEMORY"),
    (
        "said += [REFERENCE_DIRECTIVE] if any(each.is_reference for each in memories) else []",
        "said += []",
    ),
    (
        '_CLOSING = re.compile(f"\\n</(?:{TAG_MEMORY_ENTRY}|{TAG_REFERENCE})>")',
        '_CLOSING = re.compile(f"\\n</{TAG_MEMORY_ENTRY}>")',
    ),
    ("await self._require_as_shown(Raising.of(found.proposal))", "pass"),
    ("if hidden.hides(of.agent_id, of.namespace):", "if False:"),
    ("if not is_shown or (is_distrusted and not current_writer().is_person):", "if not is_shown:"),
    (
        "if not is_shown or (is_distrusted and not current_writer().is_person):",
        "if is_distrusted and not current_writer().is_person:",
    ),
    (
        "elif is_person and not self._hidden.hides(entry.agent_id, entry.namespace):",
        "elif not self._hidden.hides(entry.agent_id, entry.namespace):",
    ),
    (
        'return is_proposer or is_of(raised, scope) or raised.get("memory_id") in memory_ids',
        "return is_proposer",
    ),
)
