"""Chooses the certificate for each name of an address space. Pure, apart from key generation.

The CA of the space signs one certificate for all its names. For the host of an endpoint the tenant
may provide another one (`certBundle`), or use the node's (`wildcard`). An unusable certificate is
not used, and the space reports why.
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
from enmasse.control.secret_extraction import CERTIFICATE, KEY, secret_name
from enmasse.engines import ServerCertificate
from enmasse.plan import names_of
from enmasse.resources import AddressSpace
from enmasse.resources.endpoints import Endpoint

TRUSTED_LENGTH_MAX = 16 * 1024
"""Maximum characters of all CAs that clients of a space get, including those of the tenant's
chains: each endpoint and export repeats them.
"""


RETRY_INTERVAL = timedelta(minutes=5)
"""Retry interval after a failed creation."""


@dataclass(frozen=True)
class NodeIdentity:
    """The node's certificate, and the CA by which clients can trust all spaces."""

    chain: str
    """PEM."""

    authority: str
    """PEM."""

    authority_key: str = field(repr=False)
    is_own: bool = False
    """Whether the certificate belongs to the operator, signed by another CA."""

    @cached_property
    def certificate(self) -> Certificate:
        """The node's certificate chain."""
        return x509.load_pem_x509_certificate(self.chain.encode())

    @cached_property
    def signer(self) -> Authority:
        """The CA that vouches for the CAs of spaces."""
        return signing.read_authority(self.authority, self.authority_key)


@dataclass(frozen=True, slots=True)
class ChoiceInput:
    """The inputs of the choice for a space."""

    space: AddressSpace
    kept: Mapping[str, str] | None
    """Its CAs, as texts; None before the first."""

    bundles: Mapping[str, Mapping[str, str]]
    """Contents of the existing Secrets that its endpoints reference, by name."""

    refused: Mapping[str, str]
    """Chains that the node refused, with reasons."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The choice as reported by the space's status."""

    trusted: str
    """CAs to trust; PEM."""

    problem: tuple[str, str] | None = None
    """Why it differs from the request: a reason for programs, a message for people."""

    message: str = ""
    """Description, if it is as requested."""

    chains: Mapping[str, str] = field(default_factory=dict)
    """Chains of endpoints that do not use the space's CA: PEM, by endpoint."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The new choice for a space."""

    certificates: tuple[ServerCertificate, ...]
    shown: Choice
    since: datetime
    """Start of its validity."""

    until: datetime
    """Time of the next check, unless something changes before."""

    keep: Mapping[str, str] | None = None
    """The CAs to store, if they changed."""


@dataclass(slots=True)
class _Choice:
    """The outcome of the endpoints of a space."""

    bundles: dict[str, Bundle] = field(default_factory=dict)
    """By the name that each certificate is for."""

    of_node: set[str] = field(default_factory=set)
    """Names with the node's certificate."""

    is_requested: bool = False
    """Whether the node's certificate replaces a requested one of the tenant."""

    chains: dict[str, str] = field(default_factory=dict)
    problems: list[tuple[str, str]] = field(default_factory=list)
    steps: list[datetime] = field(default_factory=list)
    """When a certificate that is not valid yet becomes valid."""


def choose(question: ChoiceInput, node: NodeIdentity, now: datetime) -> Decision:
    """Choose the certificates of a space. Errors affect that space only; the result has them."""
    try:
        return _decided(question, node, now)
    except (OSError, *signing.UNREADABLE) as error:
        reason = (
            f"cannot create its certificate ({error}): the key of its CA in"
            f" Secret {names_of(question.space)[-1]}.ca, or the node's in"
            " tls/ca.key, is unusable; restore it. The node's certificate is"
            " used"
        )
        return Decision(
            (), Choice(_published_authority(node), ("NotShown", reason)), now, now + RETRY_INTERVAL
        )


def _decided(question: ChoiceInput, node: NodeIdentity, now: datetime) -> Decision:
    names = names_of(question.space)
    # The CA first: it signs the rest. An unreadable one is not replaced, since clients trust it.
    try:
        before = from_texts(question.kept) if question.kept is not None else None
    except signing.UNREADABLE as error:
        reason = f"the Secret of its CA cannot be read ({error}); restore it, or delete it"
        problem = (
            "AuthorityUnreadable",
            (f"{reason} to have a new one created. The node's certificate is used"),
        )
        since, until = (one.replace(tzinfo=now.tzinfo) for one in (datetime.min, datetime.max))
        return Decision((), Choice(_published_authority(node), problem), since, until)
    succession = followed(before, names[-1], now)
    choice = _chosen(question, node, now)
    key = signing.new_key()
    own = signing.issue(succession.current, key, "EnMasse address space", names, now)
    chain = [own]
    if node.signer.ends > now:
        chain.append(signing.cross_signed(succession.current, node.signer, now))
    # A name has one certificate: the tenant's, else the node's, else one of the CA of the space.
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
    return Decision(
        certificates=tuple(certificates),
        shown=_reported(succession, choice, node),
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


def _chosen(question: ChoiceInput, node: NodeIdentity, now: datetime) -> _Choice:
    choice = _Choice()
    for endpoint in question.space.spec.endpoints:
        if endpoint.service != "messaging":
            continue
        provider = endpoint.cert.provider if endpoint.cert else None
        if provider == "certBundle":
            _choose_bundle(choice, question, endpoint, now)
        elif provider == "openshift":
            message = (
                f"{endpoint.name}: OpenShift certificates are not"
                " supported; choose another provider"
            )
            choice.problems.append(("NotServed", message))
        elif provider == "wildcard":
            missing = [host for host in endpoint.hosts if not covers(node.certificate, host)]
            if missing:
                message = (
                    f"{endpoint.name}: the node's certificate does not contain"
                    f" {', '.join(missing)}; the operator can install one that"
                    " does in tls/tls.crt"
                )
                choice.problems.append(("NotNamed", message))
            choice.of_node.update(set(endpoint.hosts) - set(missing))
            choice.is_requested |= bool(set(endpoint.hosts) - set(missing))
        elif provider is None and node.is_own:
            # Clients knew the operator's certificate before the space had its own.
            choice.of_node.update(one for one in endpoint.hosts if covers(node.certificate, one))
    choice.of_node -= choice.bundles.keys()
    return choice


def _choose_bundle(
    choice: _Choice, question: ChoiceInput, endpoint: Endpoint, now: datetime
) -> None:
    space = question.space
    # Readable, in time, and for the right names, in that order: the tenant can correct one problem
    # at a time. A bundle that begins later is examined again at that time.
    secret = secret_name(space, endpoint)
    texts = question.bundles.get(secret, {})
    try:
        bundle = read_bundle(texts.get(CERTIFICATE), texts.get(KEY))
    except Invalid as error:
        message = f"{endpoint.name}: Secret {secret} {error.message}"
        choice.problems.append(("NotUsable", message))
        return
    reason = bundle.validity_problem(now) or question.refused.get(bundle.chain_pem)
    if reason is not None:
        choice.problems.append(("NotUsable", f"{endpoint.name}: Secret {secret} {reason}"))
        choice.steps += [bundle.begins] if bundle.begins > now else []
        return
    names = names_of(space)
    own = [name for name in (names[0], names[-1]) if covers(bundle.chain[0], name)]
    hosts = [host for host in endpoint.hosts if covers(bundle.chain[0], host)]
    if missing := [host for host in endpoint.hosts if host not in hosts]:
        message = f"{endpoint.name}: the certificate of Secret {secret} does not name"
        choice.problems.append(
            ("NotNamed", (f"{message} {', '.join(missing)}; replace it with one that does"))
        )
    elif not endpoint.hosts and not own:
        message = f"{endpoint.name}: the certificate of Secret {secret} names no host of the space"
        remedy = f"issue one that contains {names[-1]}, or set routeHost to a host it contains"
        choice.problems.append(("NotNamed", f"{message}; {remedy}"))
    for name in (*hosts, *own):
        choice.bundles.setdefault(name, bundle)
    if hosts or own:
        choice.chains[endpoint.name] = bundle.chain_pem


def _reported(succession: Succession, choice: _Choice, node: NodeIdentity) -> Choice:
    bundles = {bundle.chain_pem: bundle for bundle in choice.bundles.values()}
    trusted = [*succession.trusted]
    for bundle in bundles.values():
        trusted += [one for one in bundle.authorities if one not in trusted]
    trusted_pem = signing.chain_pem(trusted)
    if has_too_many := len(trusted_pem) > TRUSTED_LENGTH_MAX:
        trusted_pem = signing.chain_pem(succession.trusted)
    if choice.is_requested:
        trusted_pem += _published_authority(node)
    # A condition has one reason: problems come before what could not be listed.
    if choice.problems:
        reasons = "; ".join(message for _, message in choice.problems)
        message = f"{reasons}. A certificate signed by the CA of the space is used instead"
        return Choice(trusted_pem, (choice.problems[0][0], message), chains=choice.chains)
    if has_too_many:
        message = (
            f"the CAs of the tenant's certificates exceed {TRUSTED_LENGTH_MAX}"
            " characters and are not listed; use fewer, or remove well-known"
            " CAs from tls.crt"
        )
        return Choice(trusted_pem, ("NotTold", message), chains=choice.chains)
    parts = [(f"signed by the CA of the space, valid until {succession.current.ends:%Y-%m-%d}")]
    if succession.following is not None:
        parts.append(f"its successor signs from {succession.next_step:%Y-%m-%d}")
    for bundle in bundles.values():
        hosts = ", ".join(name for name, one in choice.bundles.items() if one is bundle)
        parts.append(f"the tenant's certificate for {hosts}, valid until {bundle.ends:%Y-%m-%d}")
    if choice.of_node:
        parts.append(f"the node's certificate for {', '.join(sorted(choice.of_node))}")
    return Choice(trusted_pem, message="; ".join(parts), chains=choice.chains)


def _published_authority(node: NodeIdentity) -> str:
    """Return the CA of the node's certificate, if it is ours to publish."""
    return "" if node.is_own else node.authority
