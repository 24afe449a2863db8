"""A client that a published generator made of openapi.json, against a running controller:
openapi_client.py http://ADDRESS SOCKET

Every operation is asked, and every answer must be read with nothing left over, and be what it was when it is written
again."""
import json
import sys

import attrs
import httpx
from watermaster_client import Client
from watermaster_client.api.default import (
    declare, description, events, exchange, explain_flow, explain_job, flows, flows_of, give_order, health, jobs,
    jobs_of, leader, leave, metrics, orders, pin_recording, recordings, status, unpin_recording,
)
from watermaster_client.models import (
    Connection, Drain, Evict, FlowComplete, FlowRequest, JobComplete, JobStart, JobTerms, Portion, Size, StreamReport,
    Streams, TaskHost, Undrain,
)

client = Client(base_url=sys.argv[1])
# Who may order: without TLS nobody but whom the Unix socket lets in.
operator = Client(base_url="http://socket", httpx_args={"transport": httpx.HTTPTransport(uds=sys.argv[2])})
orders_of = {"give_order", "pin_recording", "unpin_recording"}
# Which operations were asked, by their names in the description.
called = set()


def call(endpoint, how="sync", **arguments):
    name = endpoint.__name__.rpartition(".")[2]
    called.add(name)
    return getattr(endpoint, how)(client=operator if name in orders_of else client, **arguments)


def written(value):
    """A value as it is sent; it must have no field that the description doesn't know."""
    if isinstance(value, list):
        return [written(each) for each in value]
    fields = attrs.fields(type(value))
    for field in fields:
        part = getattr(value, field.name)
        for each in part if isinstance(part, list) else [part]:
            if hasattr(each, "to_dict"):
                written(each)
    left = getattr(value, "additional_properties", {})
    # What has no other field is a map, whose keys may be any.
    assert len(fields) == 1 or not left, f"{type(value).__name__} has {left}"
    return value.to_dict()


def ask(endpoint, status_code=200, **arguments):
    answer = call(endpoint, "sync_detailed", **arguments)
    assert answer.status_code == status_code, (endpoint.__name__, answer)
    assert written(answer.parsed) == json.loads(answer.content), (endpoint.__name__, answer)
    return answer.parsed


def say(body, status_code=200):
    return ask(declare, status_code, application="generated", body=body)


def request(job, flow, bytes_, port):
    connection = Connection(source=f"10.0.0.1:{port}", destination="10.0.0.2:80")
    return FlowRequest(type_="flow_request", job=job, flow=flow, bytes_=bytes_, connection=connection)


epoch = ask(health).epoch
taken = say([
    JobStart(type_="job_start", job="small"),
    JobStart(type_="job_start", job="large"),
    JobTerms(type_="job_terms", job="small", objective="report", deadline_ms=60_000, weight=2),
    TaskHost(type_="task_host", job="small", task=0, host="h0"),
    Size(type_="size", job="small", map_=0, reduces=[Portion(task=1, bytes_=1000)]),
    request("small", "1", 1_000_000, 4001),
    request("large", "2", 9_000_000, 4002),
])
assert (taken.taken, taken.epoch) == (7, epoch), taken
stream = StreamReport(flow="1", delivered_bytes=1, sender_queue_bytes=2, receiver_queue_bytes=3)
say(Streams(type_="streams", job="small", samples=[stream]))
refused = say([JobStart(type_="job_start", job="x"), FlowComplete(type_="flow_complete", job="x", flow="1")], 422)
assert (refused.taken, refused.epoch, refused.refused[0].index) == (1, epoch, 1), refused

answer = ask(status)
assert answer.agents and answer.applications and answer.links and answer.switches, answer
assert {flow.flow for flow in ask(flows, most=10)} == {"1", "2"}
assert {job.job for job in ask(jobs)} == {"small", "large", "x"}
assert {job.job for job in ask(jobs_of, application="generated")} == {"small", "large", "x"}
own = ask(flows_of, application="generated")
assert len(own.flows) == 2 and own.epoch == epoch, own
assert ask(flows_of, application="generated", after=own.version + 1, wait=30, most=1).more == 1
flow = ask(explain_flow, application="generated", job="large", flow="2")
assert flow.why and flow.bottleneck.rivals[0].job == "small", flow
assert len(ask(explain_job, application="generated", job="small").flows) == 1
assert ask(explain_job, 404, application="generated", job="none").error.field == "job"
assert ask(exchange, 426, agent="h9").error.field == "Upgrade"
assert ask(leader).here and ask(leader).epoch == epoch
assert call(metrics).endswith("# EOF\n")

standing = ask(give_order, body=Drain(type_="drain", host="h2", reason="to be mended")).standing
assert [act.order.host for act in standing] == ["h2"] and ask(orders).standing == standing, standing
assert ask(give_order, 422, body=Evict(type_="evict", application="nobody")).error.field == "application"
assert not ask(give_order, body=Undrain(type_="undrain", host="h2")).standing
*_, last = [event for event in ask(events).events if event.message == "order"]
assert last.level == "INFO" and "h2" in last.fields["order"], last
assert last in ask(events, after=last.number - 1, wait=1, most=100).events

[recording] = ask(recordings).recordings
assert not recording.pinned, recording
assert [each.pinned for each in ask(pin_recording, recording=recording.name).recordings] == [True]
assert not ask(unpin_recording, recording=recording.name).recordings[0].pinned
assert ask(unpin_recording, 422, recording=recording.name).error.field == "recording"

say([FlowComplete(type_="flow_complete", job="small", flow="1"), JobComplete(type_="job_complete", job="small")])
assert call(leave, "sync_detailed", application="generated").status_code == 202

described = call(description).to_dict()
assert described["openapi"] == "3.1.0"
every = {each["operationId"] for path in described["paths"].values() for each in path.values() if "operationId" in each}
assert called == every, f"never asked, or not described: {called ^ every}"
