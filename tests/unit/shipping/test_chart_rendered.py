"""The chart as Helm renders it: valid for Kubernetes, and right for what memtend needs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from support.helm_chart import NAMESPACE, Manifest, Rendered, rendered
from typer.testing import CliRunner

from memcore.config.settings import Settings
from memcore.programs import program_argv
from ops.cli.main import build
from ops.http.access import OPEN_PATHS
from ops.http.serve import PORT
from ops.metrics.families import QUEUE_OLDEST
from workers.groups import GROUPS, STOP_SECONDS
from workers.health import Heartbeat

#: Everything that the chart can do.
ALL: Mapping[str, Any] = {
    "workers": {"finetune": {"enabled": True, "image": "registry.example/memtend-finetune:1"}},
    "checkpoints": {"existingClaim": "checkpoints"},
    "keda": {"enabled": True, "prometheus": "http://prometheus:9090"},
    "serviceMonitor": {"enabled": True},
    "serve": {"ingress": {"enabled": True, "host": "memory.example", "tlsSecret": "tls"}},
    "policy": {"companies": {"acme": "memory:\n  level: persistent\n"}},
    "settings": {"MEMTEND_COMPANY": "acme"},
    "connections": {"qdrantApiKey": {"secret": "memtend-qdrant"}, "llmApiKey": {"secret": "models"}},
    "networkPolicy": {"serveFrom": [{"namespaceSelector": {}}], "to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]},
    "imagePullSecrets": [{"name": "pull"}],
    "beat": {"scheduling": {"nodeSelector": {"disk": "ssd"}}},
}

PARTS = {"serve", "worker-store", "worker-maintenance", "worker-llm", "beat"}


@pytest.fixture(params=[{}, ALL], ids=["defaults", "everything"])
def chart(request: pytest.FixtureRequest) -> Rendered:
    return rendered(request.param)


def container(pod: Manifest) -> Manifest:
    (only,) = pod["containers"]
    return dict(only)


def test_helm_lints_and_renders_it_and_kubernetes_takes_it(chart: Rendered) -> None:
    assert (chart.error, chart.lint, chart.invalid) == (None, (), ())
    kinds = {each["kind"] for each in chart.objects}
    assert kinds >= {"ConfigMap", "Deployment", "Job", "NetworkPolicy", "PodDisruptionBudget", "Service"}
    # What it needs of secrets exists before, and it needs nothing of the cluster's API.
    assert not kinds & {"Secret", "Role", "ClusterRole", "ServiceAccount"}


def test_what_a_cluster_may_lack_is_off_until_it_is_asked_for() -> None:
    optional = {"Ingress", "ScaledObject", "ServiceMonitor"}
    assert not {each["kind"] for each in rendered({}).objects} & optional
    assert {each["kind"] for each in rendered(ALL).objects} >= optional


def test_a_check_of_a_manifest_can_fail() -> None:
    wrong = rendered({"serve": {"scheduling": {"tolerations": [{"operatr": "Exists"}]}}})
    assert any("operatr" in each for each in wrong.invalid)


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"serve": {"replica": 3}}, "replica"),
        ({"keda": {"enabled": True}}, "prometheus"),
        ({"workers": {"finetune": {"enabled": True}}}, "workers.finetune.image"),
        ({"workers": {"finetune": {"enabled": True, "image": "x:1"}}}, "checkpoints.existingClaim"),
        ({"settings": {"MEMTEND_BROKER_URL": "redis://:password@broker"}}, "MEMTEND_BROKER_URL"),
    ],
)
def test_helm_refuses_wrong_values_and_names_them(values: Mapping[str, Any], named: str) -> None:
    error = rendered(values).error
    assert error is not None
    assert named in error


def test_every_part_runs_and_no_other() -> None:
    assert rendered({}).pods().keys() == PARTS | {"migrate"}
    assert rendered(ALL).pods().keys() == PARTS | {"migrate", "worker-finetune"}


def test_every_pod_runs_without_privileges_on_a_read_only_system(chart: Rendered) -> None:
    for pod in chart.pods().values():
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] == 10001
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["automountServiceAccountToken"] is False
        assert pod["enableServiceLinks"] is False
        assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
        security = container(pod)["securityContext"]
        assert security["readOnlyRootFilesystem"] is True
        assert security["allowPrivilegeEscalation"] is False
        assert security["capabilities"] == {"drop": ["ALL"]}
        assert container(pod)["resources"]["limits"]["memory"]
        assert all("hostPath" not in volume for volume in pod["volumes"])


def test_every_command_is_one_that_memtend_has(chart: Rendered) -> None:
    for pod in chart.pods().values():
        command, *options = container(pod)["args"]
        done = CliRunner().invoke(build(), [command, "--help"])
        assert done.exit_code == 0
        assert all(option in done.output for option in options if option.startswith("--"))
        if command == "worker":
            assert options == ["--group", options[1]]
            assert options[1] in GROUPS


def test_a_part_is_ready_while_its_heartbeat_is_fresh_or_its_door_says_so(chart: Rendered) -> None:
    for name, pod in chart.pods().items():
        only = container(pod)
        folders = {mount["mountPath"] for mount in only["volumeMounts"]}
        if name == "serve":
            paths = {kind: only[f"{kind}Probe"]["httpGet"]["path"] for kind in ("startup", "liveness", "readiness")}
            assert paths == {"startup": "/health", "liveness": "/health", "readiness": "/ready"}
            assert set(paths.values()) <= OPEN_PATHS
            assert only["ports"] == [{"name": "http", "containerPort": PORT}]
        elif name != "migrate":
            heartbeat = only["args"][-1] if name == "beat" else f"worker-{only['args'][-1]}"
            expected = [*program_argv("workers.health", python="python"), heartbeat]
            assert only["readinessProbe"]["exec"]["command"] == expected
            # A broker that is away must not start every worker anew.
            alive = [*program_argv("workers.health", python="python"), "--alive", heartbeat]
            assert only["livenessProbe"]["exec"]["command"] == alive
            home = next(each["value"] for each in only["env"] if each["name"] == "MEMTEND_HOME")
            assert str(Heartbeat.of(Path(home), heartbeat).path.parent) in folders


def test_a_worker_may_finish_before_it_is_killed(chart: Rendered) -> None:
    for name, pod in chart.pods().items():
        if name.startswith(("worker-", "beat")):
            assert pod["terminationGracePeriodSeconds"] > STOP_SECONDS


def test_the_environment_makes_valid_settings() -> None:
    held = {
        "MEMTEND_BROKER_URL": "redis://:word@broker:6379/0",
        "MEMTEND_DATABASE_URL": "postgresql://memtend:word@ledger/memtend",
        "MEMTEND_QDRANT_URL": "http://vectors:6333",
        "MEMTEND_QDRANT_API_KEY": "word",
        "MEMTEND_LLM_API_KEY": "word",
    }
    for name, pod in rendered(ALL).pods().items():
        environ = {each["name"]: each.get("value") or held[each["name"]] for each in container(pod)["env"]}
        assert held.keys() <= environ.keys()
        settings = Settings.load(environ)
        assert settings.company == "acme"
        assert (settings.policy_path is None) == (name == "migrate")


def test_secrets_are_named_and_never_written(chart: Rendered) -> None:
    for pod in chart.pods().values():
        taken = {each["name"]: each["valueFrom"] for each in container(pod)["env"] if "valueFrom" in each}
        assert taken.keys() >= {"MEMTEND_BROKER_URL", "MEMTEND_DATABASE_URL", "MEMTEND_QDRANT_URL"}
        assert all(each.keys() == {"secretKeyRef"} for each in taken.values())


def test_the_migration_is_a_hook_that_needs_nothing_of_the_chart(chart: Rendered) -> None:
    (job,) = chart.of_kind("Job").values()
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "pre-install,pre-upgrade"
    pod = job["spec"]["template"]["spec"]
    # Before the first install there is no other object of the chart.
    assert all("configMap" not in volume for volume in pod["volumes"])
    assert "serviceAccountName" not in pod
    assert container(pod)["args"] == ["migrate"]


def test_selectors_find_the_pods_that_they_mean(chart: Rendered) -> None:
    labels, deployments = chart.labels(), chart.of_kind("Deployment")
    for name, deployment in deployments.items():
        wanted = deployment["spec"]["selector"]["matchLabels"]
        assert [other for other, has in labels.items() if wanted.items() <= has.items()] == [name]
    budgets = chart.of_kind("PodDisruptionBudget")
    assert budgets.keys() == deployments.keys()
    for name, budget in budgets.items():
        assert budget["spec"]["selector"]["matchLabels"].items() <= labels[name].items()
        assert budget["spec"]["maxUnavailable"] == 1
    assert chart.of_kind("Service")["memtend-serve"]["spec"]["selector"].items() <= labels["memtend-serve"].items()


def test_nobody_comes_in_but_to_the_door(chart: Rendered) -> None:
    everything, serve = chart.of_kind("NetworkPolicy")["memtend"], chart.of_kind("NetworkPolicy")["memtend-serve"]
    assert everything["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert "ingress" not in everything["spec"]
    of_all = everything["spec"]["podSelector"]["matchLabels"].items()
    assert all(of_all <= each.items() for each in chart.labels().values())
    assert serve["spec"]["ingress"][0]["ports"] == [{"port": "http", "protocol": "TCP"}]
    assert serve["spec"]["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == "serve"


def test_keda_scales_each_group_of_workers_by_the_age_of_its_oldest_job() -> None:
    everything = rendered(ALL)
    scaled = everything.of_kind("ScaledObject")
    assert {name.removeprefix("memtend-") for name in scaled} == everything.pods().keys() - {"serve", "beat", "migrate"}
    for name, each in scaled.items():
        (trigger,) = each["spec"]["triggers"]
        assert trigger["metadata"]["query"].startswith(f'max({QUEUE_OLDEST.name}{{namespace="{NAMESPACE}"')
        assert each["spec"]["scaleTargetRef"]["name"] == name
        assert each["spec"]["minReplicaCount"] <= each["spec"]["maxReplicaCount"]
        # KEDA's number stands: a number in the Deployment would be set again with each upgrade.
        assert "replicas" not in everything.of_kind("Deployment")[name]["spec"]
    assert "replicas" in everything.of_kind("Deployment")["memtend-serve"]["spec"]


def test_prometheus_scrapes_the_door_and_keeps_the_labels_that_alert_rules_ask_for() -> None:
    (endpoint,) = rendered(ALL).of_kind("ServiceMonitor")["memtend"]["spec"]["endpoints"]
    (service_port,) = rendered(ALL).of_kind("Service")["memtend-serve"]["spec"]["ports"]
    assert (endpoint["port"], endpoint["path"]) == (service_port["name"], "/metrics")
    assert endpoint["authorization"]["credentials"] == {"name": "memtend-metrics", "key": "token"}
    assert endpoint["honorLabels"] is True
    assert endpoint["relabelings"] == [{"targetLabel": "job", "replacement": "memtend"}]


def test_only_the_fine_tuner_has_a_gpu_and_writes_checkpoints() -> None:
    for name, pod in rendered(ALL).pods().items():
        only = container(pod)
        mounts = {each["name"]: each for each in only["volumeMounts"]}
        assert ("nvidia.com/gpu" in only["resources"]["limits"]) == (name == "worker-finetune")
        if name != "migrate":
            assert mounts["checkpoints"]["readOnly"] == (name != "worker-finetune")


def test_the_policies_lie_where_memtend_looks_for_them() -> None:
    everything = rendered(ALL)
    pod = everything.pods()["worker-maintenance"]
    (volume,) = [each["configMap"] for each in pod["volumes"] if "configMap" in each]
    data = everything.of_kind("ConfigMap")[volume["name"]]["data"]
    assert {each["path"]: data[each["key"]] for each in volume["items"]} == {
        "policy.yaml": "memory:\n  level: persistent\n",
        "policies/acme.yaml": "memory:\n  level: persistent\n",
    }


def test_a_change_of_the_policy_starts_pods_anew() -> None:
    def noted(values: Mapping[str, Any]) -> str:
        deployment = rendered(values).of_kind("Deployment")["memtend-beat"]
        return str(deployment["spec"]["template"]["metadata"]["annotations"]["checksum/policy"])

    assert noted({}) == noted({"serve": {"replicas": 5}})
    assert noted({}) != noted({"policy": {"file": "memory:\n  level: none\n"}})
