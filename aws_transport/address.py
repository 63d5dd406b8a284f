"""What an ``aws://`` URL says: the region, and as whom to call AWS."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlsplit

from towpath.errors import InvalidTransportUrl

_REGION = re.compile(r"[a-z0-9]+(-[a-z0-9]+)+")
_KEYS = ("profile", "role_arn", "external_id")
_FORM = "aws://eu-west-1, with ?profile=, ?role_arn= and &external_id= where they are needed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """A region of AWS, and whose rights to use: the profile's (boto3's default chain without one), and the role's that
    is assumed with them.
    """

    region: str
    profile: str | None = None
    role_arn: str | None = None
    external_id: str | None = None

    @staticmethod
    def parse(url: str) -> Address:
        """Read ``aws://REGION?profile=..&role_arn=..&external_id=..``. Raises ``InvalidTransportUrl``."""
        parts = urlsplit(url)
        if not _REGION.fullmatch(parts.netloc) or parts.path not in ("", "/") or parts.fragment:
            shown = re.sub(r"(?<=://).*@", "***@", url)  # keys do not belong there, and are not shown
            raise InvalidTransportUrl(f"{shown!r} names no region of AWS; write {_FORM}")
        pairs = parse_qsl(parts.query, keep_blank_values=True)
        given = dict(pairs)
        unknown = [name for name in given if name not in _KEYS]
        if unknown:
            raise InvalidTransportUrl(f"{url!r} has the unknown key {unknown[0]!r}; allowed are {', '.join(_KEYS)}")
        if len(given) < len(pairs) or not all(given.values()):
            raise InvalidTransportUrl(f"{url!r} gives a key twice or empty; write {_FORM}")
        if "external_id" in given and "role_arn" not in given:
            raise InvalidTransportUrl(f"{url!r} has an external_id without the role_arn that it is for")
        return Address(region=parts.netloc, **given)
