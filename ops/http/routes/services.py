"""The parts of the service whose routes all follow from its methods."""

from fastapi import APIRouter

from memcore.service.dead_letters import DeadLetterOperations
from memcore.service.org import OrgOperations
from memcore.service.skills import SkillOperations
from memcore.service.webhooks import WebhookOperations
from ops.http.declared import router_of

router = APIRouter()
# Included, they would be one route each for who looks at the routes of this module.
router.routes += router_of("skills", SkillOperations).routes
router.routes += router_of("org", OrgOperations, tag="organisation").routes
router.routes += router_of("dead_letters", DeadLetterOperations).routes
router.routes += router_of("webhooks", WebhookOperations).routes
