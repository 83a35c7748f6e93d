"""Scripts in browsers can read the fields, and nothing that the app said is lost."""

from limen.adapters.cors import exposed

ORIGIN = (b"access-control-allow-origin", b"https://app.example.com")
NAMES = [b"ratelimit", b"retry-after"]


def test_a_response_to_another_origin_exposes_the_names() -> None:
    assert exposed([ORIGIN], NAMES, False) == [ORIGIN, (b"access-control-expose-headers", b"ratelimit, retry-after")]


def test_a_request_with_an_origin_exposes_them_for_a_cors_layer_outside() -> None:
    assert exposed([], NAMES, True) == [(b"access-control-expose-headers", b"ratelimit, retry-after")]


def test_names_are_appended_once_to_what_the_app_exposes() -> None:
    headers = [ORIGIN, (b"access-control-expose-headers", b"ETag, Retry-After"), (b"x-a", b"b")]
    wanted = (b"access-control-expose-headers", b"ETag, Retry-After, ratelimit")
    assert exposed(headers, NAMES, False) == [ORIGIN, (b"x-a", b"b"), wanted]
    assert exposed([ORIGIN, wanted], NAMES, False) == [ORIGIN, wanted]


def test_other_responses_stay_as_they_are() -> None:
    headers = [(b"x-a", b"b")]
    assert exposed(headers, NAMES, False) is headers
