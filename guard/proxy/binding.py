"""Which procedure a request is bound to, by whom, and whether it can be carried out with these inputs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any, Final, Literal, get_args

import orjson

from guard.config import Service
from guard.config.policies import Mode
from guard.config.service import Enforced
from guard.config.settings import Route
from guard.errors import RequestError
from guard.procedure.execute import Program
from guard.procedure.types import Value
from guard.proxy.answer_format import check_format
from guard.proxy.costs import require_few, require_short
from guard.run.ladders import named
from guard.run.messages import Message, Target
from guard.run.policy import Policy, damped
from guard.run.run import Job
from guard.trace import prompt
from guard.wire.chat import ChatRequest, parse_request, text_of
from guard.wire.conversation import sent_on
from guard.wire.fields import forwarded
from guard.wire.members import edited

PROCEDURE_HEADER = "x-stepguard-procedure"
POLICY_HEADER = "x-stepguard-policy"
MODE_HEADER = "x-stepguard-mode"

MODES: Final = get_args(Mode)

Content = Literal["answer", "trace", "both"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who asks, and what binds the request besides its body.

    `key` is the client's key at this server, `authorization` the header that may be passed on.
    """

    key: str | None = None
    authorization: str | None = None
    header: str | None = None
    path: str | None = None
    traceparent: str | None = None
    policy: str | None = None
    mode: str | None = None
    retried: int = 0  # how often the client says that it has sent this request before


@dataclass(frozen=True, slots=True, kw_only=True)
class Unbound:
    """A request that passes through: to which upstream, and with which body."""

    upstream: str
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A request that is carried out under a procedure."""

    request: ChatRequest
    program: Program
    inputs: Mapping[str, Value]
    enforced: Enforced
    targets: tuple[Target, ...]
    instructions: str
    content: Content
    extra: dict[str, object]  # fields that travel with every generation
    above: frozenset[str]  # inputs whose text stands in the conversation
    retried: int = 0

    @property
    def as_reasoning(self) -> bool:
        """Whether verified steps go into `reasoning_content`."""
        return self.content == "answer" and self.enforced.settings.steps_as == "reasoning"

    @property
    def response_format(self) -> object:
        """The client's, None where it has none."""
        return _response_format(self.request)

    @property
    def policy(self) -> Policy:
        """What the run follows."""
        return damped(self.enforced.policy, self.retried)

    @property
    def whole(self) -> bool:
        """Whether nothing leaves before the end."""
        return not self.request.stream or not (self.as_reasoning or self.content != "answer")

    def job(self, nonce: str) -> Job:
        """Say what the run has to do."""
        closing = prompt.closing(self.program, self.inputs, nonce, above=self.above)
        return Job(
            program=self.program,
            inputs=self.inputs,
            messages=_said_last(sent_on(self.request.messages, self.instructions), closing),
            nonce=nonce,
            temperature=self.request.temperature,
            top_p=self.request.top_p,
            seed=self.request.seed,
            max_tokens=self.request.budget,
            budget_field=self.request.budget_field,
            whole=self.whole,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What a request is to be: the procedure that binds it, None for none, and the route that fits it.

    `policy` and `mode` are what the client asks for, if it does; see `policy_of` and `mode_of`.
    """

    procedure: str | None
    route: Route | None
    raw: Mapping[str, Any]
    policy: str | None = None
    mode: str | None = None
    retried: int = 0


def choose(service: Service, caller: Caller, raw: Mapping[str, Any]) -> Choice:
    """Find the procedure of a request with this body.

    Raises `RequestError` for bindings that disagree, and a procedure that there is not. The last is for
    clients that may choose: to others all but their own are the same.
    """
    route = route_for(service, caller, raw.get("model"))
    claim = _claim(caller, raw)
    configured = route.procedure if route else None
    if claim is None:
        procedure = configured
    elif configured and configured != claim[1] and not (route and route.override):
        raise RequestError(
            f"model {raw.get('model')!r} is bound to procedure {configured!r} by the configuration, "
            f"found a request for {claim[1]!r}",
            code="binding_conflict",
        )
    else:
        procedure = _known(service, *claim)
    policy = _asked(raw, "policy", caller.policy, POLICY_HEADER)
    mode = _asked(raw, "mode", caller.mode, MODE_HEADER)
    if procedure is None and ("stepguard" in raw or policy or mode):
        raise RequestError(
            "stepguard.procedure is missing, and no route binds this model",
            param="stepguard.procedure",
            code="unbound",
        )
    return Choice(procedure=procedure, route=route, raw=raw, policy=policy, mode=mode, retried=caller.retried)


def require_passing(service: Service, choice: Choice, path: str) -> None:
    """Raise `RequestError` where a request to generate is unbound and must not pass; `path` follows `/v1`."""
    if choice.procedure is None and not service.config.passes_unbound(choice.route):
        raise RequestError(
            f"no procedure is bound to this request to /v1{path.partition('?')[0]}, and this server refuses "
            "what is not guarded; name a model that a route binds, or a procedure in stepguard.procedure, "
            f"the header {PROCEDURE_HEADER} or the path /p/<procedure>/v1. To let such requests pass "
            "unguarded, the operator sets `unbound: pass` in the route or in `defaults`",
            code="unbound",
        )


def route_for(service: Service, caller: Caller, model: object) -> Route | None:
    """Give the first route that fits a model and a client."""
    name = model if isinstance(model, str) else ""
    for route in service.config.routes:
        if fnmatchcase(name, route.model) and is_open(route, caller):
            return route
    return None


def is_open(route: Route, caller: Caller) -> bool:
    """Whether a route is there for this client."""
    return route.api_key is None or route.api_key.get_secret_value() == caller.key


def passes(service: Service, choice: Choice, body: bytes) -> Unbound | None:
    """How a request passes through; None where it is bound and the procedure enforced."""
    upstream = service.upstream_names(choice.route)[0]
    if choice.procedure is None:
        return Unbound(upstream=upstream, body=body)
    if mode_of(service, choice) == "enforce":
        return None
    return Unbound(upstream=upstream, body=without_control(choice, body))


def without_control(choice: Choice, body: bytes) -> bytes:
    """Take the control fields out of a body, and name the model as the route has it for the upstream."""
    model = choice.route.upstream_model if choice.route else None
    if "stepguard" not in choice.raw and not model:
        return body
    changed = {"model": orjson.dumps(model)} if model else None
    return edited(body, without="stepguard", changed=changed)


def policy_of(service: Service, choice: Choice) -> str:
    """Name the policy of a bound request: the client's if its route allows it, else the route's.

    A route that names no policy leaves the choice to the client; only such a client learns which ones there
    are. Raises `RequestError`.
    """
    route, asked = choice.route, choice.policy
    own = (route.policy if route else None) or service.config.defaults.policy
    allowed = {own, *((route and route.policies) or ())}
    if asked is None or asked in allowed:
        return asked or own
    if not _chooses_policy(route):
        raise _forbidden("policy", asked, allowed)
    if asked not in service.policies:
        raise RequestError(
            f"there is no policy {asked!r}; there are {_listed(service.policies)}",
            param="stepguard.policy",
            code="unknown_policy",
        )
    return asked


def _chooses_policy(route: Route | None) -> bool:
    return route is None or route.override or (route.policy is None and route.policies is None)


def mode_of(service: Service, choice: Choice) -> Mode:
    """Say in which mode a bound request is served: the client's if its route allows it.

    Else it is the route's, else the policy's, else the default one. A policy that the client chose, and
    that no route names, brings no other mode with it. Raises `RequestError`.
    """
    route, policy = choice.route, policy_of(service, choice)
    usual = (route.policy if route else None) or service.config.defaults.policy
    own = _configured_mode(service, route, policy)
    asked = choice.mode or own
    if asked not in MODES:
        expected = ", ".join(map(repr, MODES))
        raise RequestError(
            f"stepguard.mode: expected one of {expected}, found {asked!r}",
            param="stepguard.mode",
            code="invalid_value",
        )
    allowed = {_configured_mode(service, route, usual), *(route.modes if route else ())}
    if policy == usual or (route and policy in (route.policies or ())):
        allowed.add(own)
    if route.override if route else service.config.passes_unbound(None):
        allowed.update(MODES)  # who may leave out the procedure may also leave it unenforced
    only_observes = service.policies[policy].settings.deliver == "pass_through"
    possible = allowed - {"enforce"} if only_observes else allowed
    for mode in possible:
        if mode == asked:
            return mode
    raise _forbidden(
        "mode",
        asked,
        possible,
        brought_by=policy if choice.mode is None else None,
        elsewhere=f"'enforce' with another policy than {policy!r}" if possible != allowed else "",
    )


def _configured_mode(service: Service, route: Route | None, policy: str) -> Mode:
    written = service.policies[policy].settings.mode
    return (route.mode if route else None) or written or service.config.defaults.mode


def bind(service: Service, choice: Choice, body: bytes, moment: datetime) -> Bound:
    """Read a bound request that comes at a moment. Raises `RequestError` for whatever it cannot have."""
    assert choice.procedure is not None
    request = parse_request(body, choice.raw)
    extra = forwarded(request)
    enforced = service.policies[policy_of(service, choice)]
    bound = enforced.procedures[choice.procedure]
    program = bound.program
    asked = request.stepguard.content if request.stepguard else None
    content = asked or enforced.settings.content
    check_format(_response_format(request), program.result, content)
    given = dict(request.stepguard.inputs) if request.stepguard else {}
    above = _last_message(program, request, given)
    require_few({**given, **above}, program.extent.passes)
    inputs = program.accept({**given, **above}, moment)
    require_short(program, inputs)
    return Bound(
        request=request,
        program=program,
        inputs=inputs,
        enforced=enforced,
        targets=tuple(map(service.forced, _targets(service, choice.route, request.model, enforced.policy))),
        instructions=bound.instructions,
        content=content,
        extra=extra,
        above=frozenset(above),
        retried=choice.retried,
    )


def _claim(caller: Caller, raw: Mapping[str, Any]) -> tuple[str, str] | None:
    """Give where the client names a procedure, and which; None where it names none."""
    control = raw.get("stepguard")
    named = control.get("procedure") if isinstance(control, dict) else None
    claims = {
        "the path": caller.path,
        f"the header {PROCEDURE_HEADER}": caller.header,
        "stepguard.procedure": named if isinstance(named, str) else None,
    }
    made = [(where, name) for where, name in claims.items() if name is not None]
    for where, name in made:
        if name != made[0][1]:
            raise RequestError(
                f"the request is bound twice, to {made[0][1]!r} by {made[0][0]} and to {name!r} by {where}",
                code="binding_conflict",
            )
    return made[0] if made else None


def _known(service: Service, where: str, name: str) -> str:
    """Give a procedure back that can be run."""
    if name not in service.config.programs:
        raise RequestError(
            f"there is no procedure {name!r}, named by {where}; there are {_listed(service.config.bindable)}",
            param="stepguard.procedure" if where == "stepguard.procedure" else None,
            code="unknown_procedure",
        )
    service.config.programs[name].require_runnable()
    return name


def _asked(raw: Mapping[str, Any], field: str, header: str | None, spelled: str) -> str | None:
    """Give what the client says of a policy or mode, in the body or in a header."""
    control = raw.get("stepguard")
    said = control.get(field) if isinstance(control, dict) else None
    if said is not None and not isinstance(said, str):
        raise RequestError(
            f"stepguard.{field}: expected a string", param=f"stepguard.{field}", code="invalid_value"
        )
    if said is not None and header is not None and said != header:
        raise RequestError(
            f"the request asks for {field} {said!r} in stepguard.{field} and for {header!r} in the header "
            f"{spelled}",
            param=f"stepguard.{field}",
            code="binding_conflict",
        )
    return header if said is None else said


def _forbidden(
    what: str, asked: str, among: Collection[str], *, brought_by: str | None = None, elsewhere: str = ""
) -> RequestError:
    """Refuse a policy or a mode.

    `brought_by` is the policy that has it, where only that was asked for; `elsewhere` what would be allowed
    beside `among` if something else was asked for, too.
    """
    because = "" if brought_by is None else f", and policy {brought_by!r} has it"
    allowed = ", ".join(filter(None, (_listed(among) if among or not elsewhere else "", elsewhere)))
    return RequestError(
        f"{what} {asked!r} is not allowed here by the configuration{because}; allowed: {allowed}",
        param=f"stepguard.{what if brought_by is None else 'policy'}",
        code=f"{what}_not_allowed",
        status=403,
    )


def _last_message(program: Program, request: ChatRequest, given: Mapping[str, Any]) -> dict[str, str]:
    """Take the last message for the one text input that the client left out."""
    left_out = [name for name in program.sources if name not in given]
    said = [text_of(message) for message in request.messages if message.get("role") == "user"]
    return {left_out[0]: said[-1]} if len(left_out) == 1 and said and said[-1].strip() else {}


def _targets(service: Service, route: Route | None, asked: str, policy: Policy) -> Iterator[Target]:
    """Give the upstreams in the order of fallback, each with the model that it is asked for.

    Behind them those that only the policy names stand by.
    """
    names = service.upstream_names(route)
    for index, name in enumerate(names):
        target = service.upstreams[name].target
        routed = route.upstream_model if route and index == 0 else None
        yield target.asked_for(routed or target.model or asked)
    for name in named(policy.rules):
        if name not in names:
            target = service.upstreams[name].target
            yield replace(target.asked_for(target.model or asked), standby=True)


def _said_last(messages: tuple[Message, ...], text: str) -> tuple[Message, ...]:
    """Say something more in the user's name: roles must alternate in many templates."""
    match messages:
        case (*before, {"role": "user", "content": str(own)} as last) if own:
            return (*before, {**last, "content": f"{own}\n\n{text}"})
        case (*before, {"role": "user", "content": list(parts)} as last):
            return (*before, {**last, "content": [*parts, {"type": "text", "text": text}]})
        case _:
            return (*messages, {"role": "user", "content": text})


def _listed(names: Iterable[str]) -> str:
    shown = sorted(names)
    return ", ".join(map(repr, shown[:20])) + (", ..." if len(shown) > 20 else "") if shown else "none"


def _response_format(request: ChatRequest) -> object:
    return (request.model_extra or {}).get("response_format")
