"""The attacks of the benchmark over HTTP, against a service without Spark."""

import pytest
from benchmarks.attacks.outside import HTTP_ATTACKS, run_attacks
from benchmarks.attacks.specifications import FILE_ATTACKS, OutsideAttack
from tests.support.http_clients import served


@pytest.mark.parametrize("attack", HTTP_ATTACKS, ids=lambda attack: attack.name)
def test_the_attack_is_repelled(attack: OutsideAttack) -> None:
    with served() as server:
        (result,) = run_attacks([attack], server.url)
    assert result.is_repelled, result


def test_attacks_are_named_once() -> None:
    names = [attack.name for attack in (*HTTP_ATTACKS, *FILE_ATTACKS)]
    assert len(set(names)) == len(names) >= 40
