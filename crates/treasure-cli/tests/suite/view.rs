//! What `--watch` shows of a text.

#[path = "../../src/output/view.rs"]
mod fitted;

use fitted::view;

#[test]
fn a_view_fits_the_screen_in_wide_scripts_too_and_steers_nothing() {
    assert_eq!(view("the cat sat\x1b[2J", "b", 9, 10), "the cat\nsat[2J\nb");
    // Each of these characters is two columns wide.
    assert_eq!(view("猫猫猫猫猫", "b", 7, 10), "猫猫猫\n猫猫\nb");
    assert_eq!(view("a b c d", "below", 2, 4), "c\nd\nbelow");
}
