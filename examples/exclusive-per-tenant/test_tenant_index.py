"""One rebuild of a tenant at a time, however many workers and whatever fails; other tenants go on beside it."""

import json
import threading

import pytest
import tenant_index

from towpath import NewMessage


@pytest.fixture(autouse=True)
def folders(tmp_path, monkeypatch):
    for tenant in ("acme", "globex"):
        (tmp_path / "notes" / tenant).mkdir(parents=True)
        (tmp_path / "notes" / tenant / "gate.txt").write_text(f"{tenant} opens the gate")
    monkeypatch.setenv("NOTES", str(tmp_path / "notes"))
    monkeypatch.setenv("INDEXES", str(tmp_path / "indexes"))
    return tmp_path


def changed(*tenants):
    return [NewMessage(partition_key=tenant) for tenant in tenants]


def test_each_tenant_gets_its_index(towpath_transport, towpath_work, folders):
    towpath_transport.publish("tenant.changed", changed("acme", "globex", "acme"))
    assert towpath_work().states == {"completed": 3}
    assert json.loads((folders / "indexes/acme.json").read_text())["gate"] == ["gate.txt"]
    assert "acme" not in json.loads((folders / "indexes/globex.json").read_text())


def test_a_tenant_is_rebuilt_once_at_a_time_while_others_go_on(towpath_transport, towpath_work, monkeypatch):
    """Eight threads; acme's first rebuild does not go on before globex has had its turn."""
    under_way, most, globex = [], [], threading.Event()
    write = tenant_index.write

    def watched(file, places):
        under_way.append(file.stem)
        most.append(under_way.count(file.stem))
        if file.stem == "globex":
            globex.set()
        assert globex.wait(20)
        write(file, places)
        under_way.remove(file.stem)

    monkeypatch.setattr(tenant_index, "write", watched)
    towpath_transport.publish("tenant.changed", changed("acme", "acme", "acme", "globex"))
    assert towpath_work(concurrency=8).states == {"completed": 4}
    assert most == [1, 1, 1, 1]


def test_a_tenant_that_fails_holds_up_nobody(towpath_transport, towpath_work, folders):
    (folders / "notes/acme/gate.txt").write_bytes(b"\xff")
    towpath_transport.publish("tenant.changed", changed("acme", "globex"))
    assert towpath_work().states == {"retried": 1, "completed": 1}
    (folders / "notes/acme/gate.txt").write_text("mended")
    towpath_work.advance(5)
    assert towpath_work().states == {"completed": 1}


def test_who_lost_the_lease_writes_nothing(towpath_deliver, folders):
    assert towpath_deliver("tenant.index", changed("acme")[0], abort="lease_lost").state == "lease_lost"
    assert not (folders / "indexes").exists()


@pytest.mark.parametrize("tenant", [None, "../acme", "initech"])
def test_what_names_no_tenant_with_notes_is_set_aside(towpath_deliver, tenant):
    assert towpath_deliver("tenant.index", NewMessage(partition_key=tenant)).state == "dead"


def test_on_aws_the_tenant_is_the_message_group(towpath_lambda):
    function = towpath_lambda("tenant.index")
    function.send(*changed("acme", "globex", "acme"))
    function.run()
    assert (function.waiting, list(function.dead_letters)) == (0, [])
