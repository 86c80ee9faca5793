"""The names under which the evolver logs; ids and counts stand beside them in ``extra``, no text ever does."""

from enum import StrEnum


class SkillEvent(StrEnum):
    """A log event of the skill evolver."""

    SKILL_EVOLVER_CYCLE_START = "skill_evolver.cycle.start"
    #: The report's counts stand beside it.
    SKILL_EVOLVER_CYCLE_COMPLETE = "skill_evolver.cycle.complete"
    #: The error's class stands beside it; what was filed before stays filed.
    SKILL_EVOLVER_CYCLE_FAILED = "skill_evolver.cycle.failed"
    #: A proposal waits for a person.
    SKILL_EVOLVER_PROPOSAL_EMITTED = "skill_evolver.proposal.emitted"
    #: A pattern contradicts what stands or waits; a person must look.
    SKILL_EVOLVER_CONFLICT_DETECTED = "skill_evolver.conflict.detected"
    #: The policy has it switched off.
    SKILL_EVOLVER_DISABLED = "skill_evolver.disabled"
    #: A proposal takes the place of a skill, once it is approved.
    ORG_SKILL_SUPERSEDED = "org_skill.superseded"
