"""Small pure functions over the standard library, as somebody's tools: run in the sandbox and in the host.

What they answer is the same in every Python from 3.11 on.
"""

import base64
import bisect
import calendar
import collections
import colorsys
import configparser
import copy
import csv
import dataclasses
import datetime
import decimal
import difflib
import enum
import fnmatch
import fractions
import functools
import graphlib
import hashlib
import heapq
import hmac
import html
import io
import ipaddress
import itertools
import json
import math
import operator
import pprint
import random
import re
import shlex
import statistics
import string
import struct
import textwrap
import typing
import unicodedata
import urllib.parse
import uuid
import xml.etree.ElementTree
import zlib
from typing import Any


def reshape_json(text: str, indent: int | None = None) -> str:
    return json.dumps(json.loads(text), sort_keys=True, indent=indent, ensure_ascii=False)


def json_problem(text: str) -> list[Any]:
    try:
        return [json.loads(text)]
    except json.JSONDecodeError as error:
        return [error.lineno, error.colno, error.pos]


def find_all(pattern: str, text: str) -> list[Any]:
    return [[match.span(), match.groups(), match.groupdict()] for match in re.finditer(pattern, text, re.IGNORECASE)]


def replace_all(pattern: str, template: str, text: str) -> list[Any]:
    return [*re.subn(pattern, template, text), re.split(r"(\W+)", text), re.escape(text)]


def date_arithmetic(moment: str, days: float, zone_hours: int) -> list[Any]:
    at = datetime.datetime.fromisoformat(moment).replace(tzinfo=datetime.timezone(datetime.timedelta(hours=zone_hours)))
    later = at + datetime.timedelta(days=days)
    return [
        later.isoformat(), str(later - at), later.timestamp(), list(later.isocalendar()),
        f"{later:%A %d %B %Y %H:%M:%S.%f %z}",
    ]  # fmt: skip


def parse_dates(texts: list[str], format_: str) -> list[str]:
    return [datetime.datetime.strptime(text, format_).date().isoformat() for text in texts]


def month(year: int, number: int) -> list[Any]:
    return [calendar.month(year, number), calendar.monthcalendar(year, number), calendar.isleap(year)]


def read_csv(text: str, delimiter: str = ",") -> list[dict[str, Any]]:
    return list(csv.DictReader(io.StringIO(text), delimiter=delimiter))


def write_csv(rows: list[list[Any]]) -> str:
    out = io.StringIO()
    csv.writer(out, quoting=csv.QUOTE_MINIMAL).writerows(rows)
    return out.getvalue()


def describe(numbers: list[float]) -> dict[str, Any]:
    return {
        "mean": statistics.fmean(numbers),
        "median": statistics.median(numbers),
        "stdev": statistics.stdev(numbers),
        "quartiles": statistics.quantiles(numbers, n=4),
        "mode": statistics.multimode(numbers),
    }


def money(amounts: list[str], rate: str) -> list[str]:
    with decimal.localcontext() as context:
        context.prec = 30
        total = sum(map(decimal.Decimal, amounts), decimal.Decimal(0)) * decimal.Decimal(rate)
        cent = decimal.Decimal("0.01")
        return [str(total), str(total.quantize(cent, decimal.ROUND_HALF_EVEN)), f"{total:,.3f}", str(total.sqrt())]


def add_fractions(parts: list[str], limit: int) -> list[Any]:
    total = sum(map(fractions.Fraction, parts), fractions.Fraction(0))
    return [str(total), float(total), str(total.limit_denominator(limit)), total.as_integer_ratio()]


def wrap(text: str, width: int) -> list[Any]:
    paragraph = textwrap.fill(text, width, initial_indent="* ", subsequent_indent="  ")
    return [paragraph, textwrap.shorten(text, width, placeholder=" ..."), textwrap.dedent(f"  {text}\n  b")]


def differences(one: str, two: str) -> list[Any]:
    a, b = one.splitlines(), two.splitlines()
    close = difflib.get_close_matches("appel", [*a, *b, "ape", "apple", "peach"])
    ratio = difflib.SequenceMatcher(None, one, two).ratio()
    return [list(difflib.unified_diff(a, b, "one", "two", lineterm="")), list(difflib.ndiff(a, b)), close, ratio]


def encodings(text: str) -> list[Any]:
    data = text.encode()
    encoded = [base64.b64encode(data), base64.urlsafe_b64encode(data), base64.b32encode(data), base64.b85encode(data)]
    return [
        *encoded,
        base64.b64decode(encoded[0]) == data,
        data.hex(" "),
        text.encode("utf-16-le"),
        text.encode("cp1252", "replace"),
    ]


def digests(text: str) -> list[str]:
    data = text.encode()
    names = ["md5", "sha1", "sha256", "sha512", "sha3_256", "blake2b", "blake2s"]
    return [*(hashlib.new(name, data).hexdigest() for name in names), hmac.new(b"k", data, "sha256").hexdigest()]


def combine(items: list[str], size: int) -> list[Any]:
    return [
        list(itertools.combinations(items, size)),
        list(itertools.islice(itertools.permutations(items), 7)),
        list(itertools.accumulate(map(len, items))),
        [[key, list(group)] for key, group in itertools.groupby(items, key=len)],
        list(itertools.zip_longest(items, range(2))),
        list(itertools.pairwise(items)),
    ]


def count_words(text: str) -> list[Any]:
    counts = collections.Counter(re.findall(r"\w+", text.casefold()))
    places = collections.defaultdict(list)
    for number, word in enumerate(text.split()):
        places[word[:1]].append(number)
    recent = collections.deque(text.split(), maxlen=3)
    chain = collections.ChainMap({"a": 1}, {"a": 2, "b": 3})
    return [counts.most_common(4), places, list(recent), dict(chain), collections.OrderedDict(sorted(counts.items()))]


def smallest(numbers: list[int], count: int) -> list[Any]:
    heap = list(numbers)
    heapq.heapify(heap)
    popped = [heapq.heappop(heap) for _ in range(count)]
    return [popped, heapq.nlargest(count, numbers), list(heapq.merge(sorted(numbers), [0, 5]))]


def places(numbers: list[int], wanted: list[int]) -> list[Any]:
    ordered = sorted(numbers)
    return [[bisect.bisect_left(ordered, each), bisect.bisect_right(ordered, each)] for each in wanted]


def fill_in(template: str, values: dict[str, str]) -> list[Any]:
    found = string.Template(template)
    return [
        found.safe_substitute(values),
        string.capwords(template),
        template.format_map(collections.defaultdict(str, values)),
    ]


def web_text(text: str) -> list[Any]:
    return [html.escape(text), html.unescape("&lt;&eacute;&#x1F600;&amp;amp;"), html.escape(text, quote=False)]


def web_address(url: str, more: dict[str, str]) -> list[Any]:
    parts = urllib.parse.urlsplit(url)
    query = urllib.parse.parse_qsl(parts.query)
    return [
        list(parts), parts.hostname, parts.port, query, urllib.parse.urlencode([*query, *more.items()]),
        urllib.parse.urljoin(url, "../x?y#z"), urllib.parse.quote(url), urllib.parse.unquote("%C3%A9%20"),
    ]  # fmt: skip


def identifiers(name: str) -> list[Any]:
    found = uuid.uuid5(uuid.NAMESPACE_URL, name)
    return [str(found), found.version, str(uuid.uuid3(uuid.NAMESPACE_DNS, name)), uuid.UUID(int=5).hex]


def squeeze(text: str) -> list[Any]:
    packed = zlib.compress(text.encode(), 9)
    return [
        zlib.decompress(packed).decode() == text,
        len(packed) < len(text),
        zlib.crc32(text.encode()),
        zlib.adler32(text.encode()),
    ]


def pack(numbers: list[int]) -> list[Any]:
    packed = struct.pack(f"<{len(numbers)}hd", *numbers, 1.5)
    return [
        packed,
        struct.unpack_from("<h", packed),
        struct.calcsize(">bhiq"),
        list(struct.iter_unpack("<h", packed[:4])),
    ]


def characters(text: str) -> list[Any]:
    return [
        [unicodedata.name(each, "?") for each in text],
        [unicodedata.normalize(form, text) for form in ("NFC", "NFD", "NFKC", "NFKD")],
        [[unicodedata.category(each), unicodedata.combining(each)] for each in text],
        [text.upper(), text.casefold(), text.title(), text.isidentifier(), text.center(20, "*")],
    ]


def fold(numbers: list[int]) -> list[Any]:
    @functools.cache
    def fibonacci(n: int) -> int:
        return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)

    def by_remainder(a: int, b: int) -> int:
        return (a % 3 - b % 3) or a - b

    power = functools.partial(pow, 2)
    product = functools.reduce(operator.mul, numbers, 1)
    ordered = sorted(numbers, key=functools.cmp_to_key(by_remainder))
    return [fibonacci(80), power(10), product, ordered, operator.itemgetter(0, -1)(numbers)]


def deep_copy(value: dict[str, Any]) -> list[Any]:
    shallow, deep = copy.copy(value), copy.deepcopy(value)
    value["list"].append("new")
    return [shallow, deep]


class Planet(enum.Enum):
    MERCURY = ("rock", 1)
    JUPITER = ("gas", 5)


class Flag(enum.Flag):
    A = enum.auto()
    B = enum.auto()


def members() -> list[Any]:
    both = Flag.A | Flag.B
    return [[each.name for each in Planet], Planet(("gas", 5)).name, Planet.MERCURY.value, both.value, Flag.A in both]


@dataclasses.dataclass(order=True, frozen=True)
class Version:
    major: int
    minor: int = 0
    tags: tuple[str, ...] = dataclasses.field(default=(), compare=False)


def versions(numbers: list[list[int]]) -> list[Any]:
    found = sorted(Version(each[0], sum(each[1:2])) for each in numbers)
    changed = dataclasses.replace(found[0], tags=("first",))
    return [
        found,
        repr(changed),
        dataclasses.asdict(changed),
        dataclasses.astuple(found[-1]),
        hash(found[0]) == hash(changed),
    ]


def hints() -> list[Any]:
    found = typing.get_type_hints(versions)
    return [str(found["numbers"]), [str(each) for each in typing.get_args(dict[str, list[int]])]]


def pretty(value: dict[str, Any]) -> str:
    return pprint.pformat(value, width=40, compact=True)


def drawn(seed: int) -> list[Any]:
    chance = random.Random(seed)
    return [
        chance.random(),
        chance.randint(1, 100),
        chance.sample(range(50), 5),
        chance.gauss(0, 1),
        chance.choices("abc", k=4),
    ]


def order_of(tasks: dict[str, list[str]]) -> list[str]:
    return list(graphlib.TopologicalSorter(tasks).static_order())


def networks(network: str) -> list[Any]:
    found = ipaddress.ip_network(network)
    return [str(found.netmask), found.num_addresses, [str(each) for each in found.hosts()][:3], found.is_private]


def outline(text: str) -> list[Any]:
    root = xml.etree.ElementTree.fromstring(text)
    return [[each.tag, dict(each.attrib), (each.text or "").strip()] for each in root.iter()]


def settings(text: str) -> dict[str, dict[str, str]]:
    parser = configparser.ConfigParser()
    parser.read_string(text)
    return {name: dict(parser[name]) for name in parser.sections()}


def numbers(values: list[float]) -> list[Any]:
    return [
        math.fsum(values), math.prod(values), math.hypot(*values), math.comb(50, 25), math.isqrt(10**20),
        math.gcd(84, 36),
        [round(each, 2) for each in values], [f"{each:.3e}|{each:>10.2f}|{each:,}" for each in values],
        [each.hex() for each in values], divmod(-7, 2), 2**200 % 10**18, int("ff", 16), f"{255:#b}",
        round(2.5), 1e16 + 1,
        math.sin(values[0]), math.exp(values[1]), math.log2(values[2]),
    ]  # fmt: skip


def command(text: str) -> list[Any]:
    return [
        shlex.split(text),
        shlex.quote(text),
        fnmatch.filter(["a.py", "b.txt", "c.py"], "*.py"),
        colorsys.rgb_to_hls(0.2, 0.4, 0.6),
    ]
