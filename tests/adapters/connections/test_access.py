"""Which hosts, files and secrets a caller over the network may use, and what an address may say."""

from __future__ import annotations

from pathlib import Path

import pytest

from recollect.adapters.connections.access import ConnectionAccess
from recollect.adapters.connections.opening import Databases
from recollect.domain.database_address import DatabaseAddress
from recollect.errors import Denied, InvalidInput, NotFound, Unavailable


def access(hosts: list[str], **known: str) -> ConnectionAccess:
    """A lookup that knows a few names, and whose answers can be addresses of this machine."""

    def lookup(host: str, port: int) -> list[str]:
        plain = known.get(host.replace(".", "_").replace("-", "_"), host)
        if not plain[:1].isdigit() and ":" not in plain:
            raise OSError("no such host")
        return [plain]

    return ConnectionAccess(hosts, lookup=lookup)


def judged(hosts: list[str], address: str, **known: str) -> str:
    return access(hosts, **known).judged_host(DatabaseAddress.parse(address))


@pytest.mark.parametrize(
    ("hosts", "host"),
    [
        (["db.example.com"], "db.example.com"),
        (["DB.example.com."], "db.EXAMPLE.com"),
        (["db.example.com:5432"], "db.example.com"),
        (["10.0.0.0/8"], "db.example.com"),
        (["10.1.2.3"], "10.1.2.3"),
        (["10.1.2.3"], "db.example.com"),
    ],
)
def test_a_listed_host_is_reached_at_the_address_that_was_judged(hosts: list[str], host: str) -> None:
    assert judged(hosts, f"postgresql://a@{host}/shop", db_example_com="10.1.2.3") == "10.1.2.3"


@pytest.mark.parametrize(
    ("hosts", "host", "at"),
    [
        ([], "db.example.com", "10.1.2.3"),
        (["other.example.com"], "db.example.com", "10.1.2.3"),
        (["db.example.com:5433"], "db.example.com", "10.1.2.3"),
        (["example.com"], "db.example.com", "10.1.2.3"),
        (["db.example.com"], "db.example.com", "127.0.0.1"),
        (["db.example.com"], "db.example.com", "169.254.169.254"),
        (["db.example.com"], "db.example.com", "::1"),
        (["db.example.com"], "db.example.com", "::ffff:127.0.0.1"),
        (["db.example.com"], "db.example.com", "0.0.0.0"),
        (["db.example.com"], "db.example.com", "fe80::1"),
        (["192.168.0.0/16"], "db.example.com", "10.1.2.3"),
        (["db.example.com"], "127.0.0.1", "127.0.0.1"),
        (["db.example.com"], "localhost", "127.0.0.1"),
    ],
)
def test_other_hosts_are_closed(hosts: list[str], host: str, at: str) -> None:
    with pytest.raises(Denied, match="not open") as caught:
        judged(hosts, f"mysql://a@{host}:5432/shop", db_example_com=at, localhost=at)
    assert "connections.hosts" in caught.value.remedy


def test_this_machine_can_be_listed_itself() -> None:
    assert judged(["127.0.0.1"], "mysql://a@127.0.0.1/shop") == "127.0.0.1"
    assert judged(["localhost"], "mysql://a@localhost/shop", localhost="127.0.0.1") == "127.0.0.1"
    assert judged(["127.0.0.0/8"], "mysql://a@localhost/shop", localhost="127.0.0.1") == "127.0.0.1"


def test_a_host_that_is_not_listed_is_not_looked_up() -> None:
    asked: list[str] = []

    def lookup(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["10.1.2.3"]

    with pytest.raises(Denied):
        ConnectionAccess(["other"], lookup=lookup).judged_host(DatabaseAddress.parse("mysql://a@db/shop"))
    assert asked == []


def test_an_unknown_host_is_told() -> None:
    with pytest.raises(Unavailable, match="cannot be looked up"):
        judged(["db"], "postgresql://a@db/shop")


def test_files_only_in_listed_folders_and_not_through_links(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (outside / "a.db").write_bytes(b"")
    (inside / "link.db").symlink_to(outside / "a.db")
    (inside / "folder").symlink_to(outside)
    open_here = ConnectionAccess(folders=[inside])
    open_here.check_file(str(inside / "b.db"))
    for path in ("../outside/a.db", "link.db", "folder/a.db", "/etc/passwd"):
        with pytest.raises(Denied):
            open_here.check_file(str(inside / path))
    with pytest.raises(Denied):
        ConnectionAccess().check_file(str(inside / "b.db"))


def test_over_the_network_everything_must_be_listed(tmp_path: Path) -> None:
    (tmp_path / "a.db").write_bytes(b"")
    closed = Databases(ConnectionAccess(), {"HOME": "x", "SHOP": "y"}.get)
    for address, secret in [
        (f"sqlite:///{tmp_path}/a.db", None),
        ("postgresql://a@127.0.0.1/shop", None),
        ("postgresql://a@/shop?host=/var/run/postgresql", None),
        ("mysql://a@10.1.2.3/shop", "HOME"),
    ]:
        with pytest.raises(Denied):
            closed.open(address, secret, {}, confined=True)
    some = Databases(ConnectionAccess(["10.1.2.3"], secrets=["SHOP"]), {"HOME": "x", "SHOP": "geheim"}.get)
    with pytest.raises(Denied, match="secret"):
        some.open("mysql://a@10.1.2.3/shop", "HOME", {}, confined=True)
    with pytest.raises(Denied, match="file"):
        some.open("mysql://a@10.1.2.3/shop?sslrootcert=/etc/passwd", "SHOP", {}, confined=True)
    assert "geheim" not in repr(some.open("mysql://a@10.1.2.3/shop", "SHOP", {}, confined=True))


def test_a_secret_that_is_not_set_is_named() -> None:
    with pytest.raises(NotFound, match="SHOP_PASSWORD"):
        Databases(ConnectionAccess(), lambda name: None).open("mysql://a@db/shop", "SHOP_PASSWORD", {}, confined=False)


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://a:geheim@db/shop",
        "mysql://a:geheim@db/shop",
        "postgresql://a@db/shop?password=geheim",
        "mysql://a@db/shop?passwd=geheim",
        "postgresql://a@db/shop?sslpassword=geheim",
        "postgresql://a:@db/shop",
    ],
)
def test_an_address_with_a_password_is_refused_and_not_repeated(address: str) -> None:
    with pytest.raises(InvalidInput, match="must not contain a password") as caught:
        DatabaseAddress.parse(address)
    assert "geheim" not in str(caught.value.as_dict())
    assert "environment variable" in caught.value.remedy


@pytest.mark.parametrize(
    "address",
    [
        "", "shop", "http://db/shop", "duckdb:///x", "postgresql:///", "postgresql://db", "mysql://db/",
        "postgresql://d b/shop", "postgresql://db:x/shop", "postgresql://db:99999/shop", "sqlite://", "sqlite:///:memory:",
        "postgresql://a@db/shop?options=-c%20x=y", "mysql://db/shop?init_command=DROP", "postgresql://db/shop?service=x",
        "postgresql://db/shop?sslmode=sometimes", "mysql://a@db\n/shop", "postgresql://a@db,evil/shop",
        "sqlite:///a.db?mode=rwc", "postgresql://[::1/shop",
    ],
)  # fmt: skip
def test_an_address_that_cannot_be_used_is_refused(address: str) -> None:
    with pytest.raises(InvalidInput):
        DatabaseAddress.parse(address)


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("postgres://reader@db/shop", "postgresql://reader@db/shop"),
        ("postgresql+psycopg://reader@db:5433/shop?sslmode=require", "postgresql://reader@db:5433/shop"),
        ("mariadb://db/shop?ssl-mode=VERIFY_IDENTITY", "mysql://db/shop"),
        ("mysql://r%40x@[::1]/sh%2Fop", "mysql://r%40x@[::1]/sh%2Fop"),
        ("sqlite:////var/data/a b.db", "sqlite:////var/data/a%20b.db"),
        ("sqlite:///a.db", "sqlite:///a.db"),
        ("postgresql://a@/shop?host=/var/run/postgresql", "postgresql://a@/shop"),
    ],
)
def test_addresses_are_shown_without_options(address: str, shown: str) -> None:
    assert str(DatabaseAddress.parse(address)) == shown


def test_tls_options_pass_through() -> None:
    parsed = DatabaseAddress.parse("mariadb://db/shop?ssl-mode=VERIFY_IDENTITY&ssl-ca=/ca.pem")
    assert parsed.options == {"sslmode": "verify-full", "sslrootcert": "/ca.pem"}
