"""Facts of an organisation, and their authors."""

from memcore.models.organization import OrgFactAuthor, OrgFactCategory, OrgFactWriteRequest, SeniorityLevel

#: A person.
GRACE = OrgFactAuthor(is_human=True, name="Grace")


def agent(seniority: SeniorityLevel = SeniorityLevel.SENIOR, *, agent_id: str = "ada") -> OrgFactAuthor:
    return OrgFactAuthor(agent_id=agent_id, seniority=seniority)


def request(
    content: str, *, category: OrgFactCategory = OrgFactCategory.CONVENTION, tags: tuple[str, ...] = ()
) -> OrgFactWriteRequest:
    return OrgFactWriteRequest(content=content, category=category, tags=tags)
