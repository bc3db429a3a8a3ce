"""Maps that forget their oldest entries."""

import pytest

from tellwire.system.bounded import BoundedDict, forget_oldest


def test_beyond_its_bound_a_map_forgets_the_oldest() -> None:
    kept: BoundedDict[str, int] = BoundedDict(3)
    for number, key in enumerate("abcde"):
        kept[key] = number
    assert dict(kept) == {"c": 2, "d": 3, "e": 4}


def test_an_assignment_keeps_a_keys_place_and_renew_makes_it_the_newest() -> None:
    kept: BoundedDict[str, int] = BoundedDict(3)
    kept.update(a=1, b=2, c=3)
    kept["a"] = 4
    assert list(kept.items()) == [("a", 4), ("b", 2), ("c", 3)]
    kept.renew("b", 5)
    assert list(kept.items()) == [("a", 4), ("c", 3), ("b", 5)]
    kept.renew("d", 6)
    assert list(reversed(kept.items())) == [("d", 6), ("b", 5), ("c", 3)]


def test_no_way_of_putting_something_in_passes_the_bound_by() -> None:
    kept: BoundedDict[int, int] = BoundedDict(2)
    kept.update({number: number for number in range(5)})
    assert list(kept) == [3, 4]
    assert kept.setdefault(9, 1) == 1
    assert list(kept) == [4, 9]
    kept |= {10: 0, 11: 0}
    assert list(kept) == [10, 11]
    assert kept.pop(10) == 0
    assert kept.get(10) is None


@pytest.mark.parametrize("most", [0, 2, 5])
def test_a_plain_dict_is_cut_to_its_newest(most: int) -> None:
    entries = {number: str(number) for number in range(4)}
    forget_oldest(entries, most)
    assert list(entries) == list(range(4))[max(0, 4 - most) :]
