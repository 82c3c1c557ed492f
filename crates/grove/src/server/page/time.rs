//! Moments, as `3 min ago`; `assets/app.js` keeps them right while the page is open.

use grove_model::Moment;
use maud::{Markup, html};

pub fn ago(moment: Moment) -> Markup {
    let now = Moment::now();
    html! {
        time datetime=(moment) title=(moment) data-ago {
            @if now.since(moment).as_secs() < 10 { "just now" } @else { (now.age_since(moment)) " ago" }
        }
    }
}
