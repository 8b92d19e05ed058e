"""Which certificate an address space shows for each of its names. Pure, but for keys that are made.

Its own authority signs one for all its names. For the host of an endpoint the tenant may bring
another (`certBundle`), or have the node's (`wildcard`); one that cannot be used is not shown, and
the space says why.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property

from cryptography import x509

from enmasse.auth import authority as signing
from enmasse.auth.authority import Authority, Certificate
from enmasse.auth.bundles import Bundle, covers, read_bundle
from enmasse.auth.succession import Succession, followed, from_texts
from enmasse.base.errors import Invalid
from enmasse.control.withheld import CERTIFICATE, KEY, secret_name
from enmasse.engines import ServerCertificate
from enmasse.plan import names_of
from enmasse.resources import AddressSpace
from enmasse.resources.endpoints import Endpoint

TOLD_LENGTH_MAX = 16 * 1024
"""Characters of the authorities that clients of a space are told, with those that its tenant has
brought: each of its endpoints and exports repeats them."""


AGAIN = timedelta(minutes=5)
"""When a certificate is tried anew that could not be made."""


@dataclass(frozen=True)
class NodeIdentity:
    """The certificate of the node, and the authority by which clients can trust all its spaces."""

    chain: str
    """PEM."""

    authority: str
    """PEM."""

    authority_key: str = field(repr=False)
    is_own: bool = False
    """Whether the certificate is the operator's, of another authority."""

    @cached_property
    def certificate(self) -> Certificate:
        """What the node shows."""
        return x509.load_pem_x509_certificate(self.chain.encode())

    @cached_property
    def signer(self) -> Authority:
        """Who vouches for the authorities of spaces."""
        return signing.read_authority(self.authority, self.authority_key)


@dataclass(frozen=True, slots=True)
class Question:
    """What decides what a space shows."""

    space: AddressSpace
    kept: Mapping[str, str] | None
    """Its authorities, as texts; None: it has none yet."""

    bundles: Mapping[str, Mapping[str, str]]
    """Texts of the Secrets that its endpoints name, by the name of the Secret; those there are."""

    refused: Mapping[str, str]
    """Chains that the node does not take, and why."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What a space shows, as its status tells of it."""

    trusted: str
    """Authorities to trust; PEM."""

    problem: tuple[str, str] | None = None
    """Why it is another one than was asked for: a reason for programs, a message for people."""

    message: str = ""
    """What it is, for people, if it is what was asked for."""

    chains: Mapping[str, str] = field(default_factory=dict)
    """Of endpoints that show another one than that of the space's authority: PEM, by name."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a space shows from now on."""

    certificates: tuple[ServerCertificate, ...]
    shown: Shown
    since: datetime
    """Before that it does not hold."""

    until: datetime
    """When it is to be asked again, if nothing happens before."""

    keep: Mapping[str, str] | None = None
    """What is to be kept of its authorities, where that is not what was kept."""


@dataclass(slots=True)
class _Choice:
    """What the endpoints of a space come to."""

    bundles: dict[str, Bundle] = field(default_factory=dict)
    """By the name for which each is shown."""

    of_node: set[str] = field(default_factory=set)
    """Names for which the node's is shown."""

    by_wish: bool = False
    """Whether the node's is shown where the tenant asks for it."""

    chains: dict[str, str] = field(default_factory=dict)
    problems: list[tuple[str, str]] = field(default_factory=list)
    steps: list[datetime] = field(default_factory=list)
    """When one can be shown that cannot yet."""


def answered(question: Question, node: NodeIdentity, now: datetime) -> Answer:
    """Decide what a space shows. What is wrong with one harms no other: its answer says so."""
    try:
        return _decided(question, node, now)
    except (OSError, *signing.UNREADABLE) as error:
        reason = (
            f"no certificate can be made for it ({error}): the key of its authority, in Secret"
            f" {names_of(question.space)[-1]}.ca, or of the node's, in tls/ca.key, cannot be used;"
            " restore it; the node's certificate is shown"
        )
        return Answer((), Shown(_told_of(node), ("NotShown", reason)), now, now + AGAIN)


def _decided(question: Question, node: NodeIdentity, now: datetime) -> Answer:
    names = names_of(question.space)
    try:
        before = from_texts(question.kept) if question.kept is not None else None
    except signing.UNREADABLE as error:
        reason = f"the Secret of its authority cannot be read ({error}); restore it, or delete it"
        problem = ("AuthorityUnreadable", f"{reason} and a new one is made; the node's is shown")
        since, until = (one.replace(tzinfo=now.tzinfo) for one in (datetime.min, datetime.max))
        return Answer((), Shown(_told_of(node), problem), since, until)
    succession = followed(before, names[-1], now)
    choice = _chosen(question, node, now)
    key = signing.new_key()
    own = signing.issue(succession.current, key, "EnMasse address space", names, now)
    chain = [own]
    if node.signer.ends > now:
        chain.append(signing.vouched(succession.current, node.signer, now))
    elsewhere = choice.bundles.keys() | choice.of_node
    left = tuple(name for name in names if name not in elsewhere)
    certificates = [*_of_bundles(choice.bundles)]
    if left:
        certificates.append(ServerCertificate(left, signing.chain_pem(chain), signing.key_pem(key)))
    until = min(
        signing.renewal(own),
        succession.next_step,
        *(bundle.ends for bundle in choice.bundles.values()),
        *choice.steps,
    )
    return Answer(
        certificates=tuple(certificates),
        shown=_told(succession, choice, node),
        since=max([own.not_valid_before_utc, *(one.begins for one in choice.bundles.values())]),
        until=until,
        keep=succession.texts() if succession is not before else None,
    )


def _of_bundles(bundles: Mapping[str, Bundle]) -> Iterator[ServerCertificate]:
    by_chain: dict[str, list[str]] = {}
    for name, bundle in bundles.items():
        by_chain.setdefault(bundle.chain_pem, []).append(name)
    for names in by_chain.values():
        bundle = bundles[names[0]]
        yield ServerCertificate(tuple(names), bundle.chain_pem, bundle.key_pem)


def _chosen(question: Question, node: NodeIdentity, now: datetime) -> _Choice:
    choice = _Choice()
    for endpoint in question.space.spec.endpoints:
        if endpoint.service != "messaging":
            continue
        provider = endpoint.cert.provider if endpoint.cert else None
        if provider == "certBundle":
            _choose_bundle(choice, question, endpoint, now)
        elif provider == "openshift":
            message = f"{endpoint.name}: there is no OpenShift to sign one; choose another provider"
            choice.problems.append(("NotServed", message))
        elif provider == "wildcard":
            missing = [host for host in endpoint.hosts if not covers(node.certificate, host)]
            if missing:
                message = (
                    f"{endpoint.name}: the node's certificate does not name {', '.join(missing)};"
                    " the operator may put one that does into tls/tls.crt"
                )
                choice.problems.append(("NotNamed", message))
            choice.of_node.update(set(endpoint.hosts) - set(missing))
            choice.by_wish |= bool(set(endpoint.hosts) - set(missing))
        elif provider is None and node.is_own:
            # What the operator brings is what clients knew before the space had its own.
            choice.of_node.update(one for one in endpoint.hosts if covers(node.certificate, one))
    choice.of_node -= choice.bundles.keys()
    return choice


def _choose_bundle(choice: _Choice, question: Question, endpoint: Endpoint, now: datetime) -> None:
    space = question.space
    secret = secret_name(space, endpoint)
    texts = question.bundles.get(secret, {})
    try:
        bundle = read_bundle(texts.get(CERTIFICATE), texts.get(KEY))
    except Invalid as error:
        message = f"{endpoint.name}: Secret {secret} {error.message}"
        choice.problems.append(("NotUsable", message))
        return
    reason = bundle.untimely(now) or question.refused.get(bundle.chain_pem)
    if reason is not None:
        choice.problems.append(("NotUsable", f"{endpoint.name}: Secret {secret} {reason}"))
        choice.steps += [bundle.begins] if bundle.begins > now else []
        return
    names = names_of(space)
    own = [name for name in (names[0], names[-1]) if covers(bundle.chain[0], name)]
    hosts = [host for host in endpoint.hosts if covers(bundle.chain[0], host)]
    if missing := [host for host in endpoint.hosts if host not in hosts]:
        message = f"{endpoint.name}: the certificate of Secret {secret} does not name"
        choice.problems.append(("NotNamed", f"{message} {', '.join(missing)}; bring one that does"))
    elif not endpoint.hosts and not own:
        message = f"{endpoint.name}: the certificate of Secret {secret} names no host of the space"
        mend = f"have it name {names[-1]}, or name a host of it as routeHost"
        choice.problems.append(("NotNamed", f"{message}; {mend}"))
    for name in (*hosts, *own):
        choice.bundles.setdefault(name, bundle)
    if hosts or own:
        choice.chains[endpoint.name] = bundle.chain_pem


def _told(succession: Succession, choice: _Choice, node: NodeIdentity) -> Shown:
    bundles = {bundle.chain_pem: bundle for bundle in choice.bundles.values()}
    trusted = [*succession.trusted]
    for bundle in bundles.values():
        trusted += [one for one in bundle.authorities if one not in trusted]
    told = signing.chain_pem(trusted)
    if has_too_many := len(told) > TOLD_LENGTH_MAX:
        told = signing.chain_pem(succession.trusted)
    if choice.by_wish:
        told += _told_of(node)
    if choice.problems:
        reasons = "; ".join(message for _, message in choice.problems)
        message = f"{reasons}. One of the space's own authority is shown in its place"
        return Shown(told, (choice.problems[0][0], message), chains=choice.chains)
    if has_too_many:
        message = (
            f"the tenant's own have more than {TOLD_LENGTH_MAX} characters of authorities: clients"
            " are told of none; have fewer, or leave out of tls.crt those that clients know"
        )
        return Shown(told, ("NotTold", message), chains=choice.chains)
    parts = [f"of the space's own authority, which holds until {succession.current.ends:%Y-%m-%d}"]
    if succession.following is not None:
        parts.append(f"its successor signs from {succession.next_step:%Y-%m-%d} on")
    for bundle in bundles.values():
        hosts = ", ".join(name for name, one in choice.bundles.items() if one is bundle)
        parts.append(f"the tenant's own for {hosts}, which holds until {bundle.ends:%Y-%m-%d}")
    if choice.of_node:
        parts.append(f"the node's for {', '.join(sorted(choice.of_node))}")
    return Shown(told, message="; ".join(parts), chains=choice.chains)


def _told_of(node: NodeIdentity) -> str:
    """Return the authority of the node's certificate, if it is ours to tell."""
    return "" if node.is_own else node.authority
