"""A person on the demo page."""

from __future__ import annotations

from tacit.study.demo import STATES

HORIZON = 6


def take_part(page, site, *, epsilon, delta, least=45):
    """Play an episode on the demo page, take part, and come back."""
    page.goto(f"{site.url}/demo/")
    page.get_by_text(f"promises epsilon {epsilon} and delta {delta} among at least {least} people").wait_for()
    assert page.locator("#river li").all_inner_texts() == list(STATES)
    assert page.get_by_role("button", name="Send my private report").is_disabled()
    for step in range(HORIZON):
        page.get_by_text(f"Step {step} of {HORIZON}.").wait_for()
        page.get_by_text("The study suggests: ").wait_for()
        page.get_by_role("button", name="swim").click()
    page.get_by_text("The swim is over.").wait_for()
    assert page.get_by_role("button", name="swim").is_disabled()
    page.get_by_role("button", name="Send my private report").click()
    page.get_by_text("Counted. Thank you.").wait_for()
    page.reload()
    page.get_by_text("Counted. Thank you.").wait_for()
    assert page.get_by_role("button", name="Send an empty report").is_disabled()
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
