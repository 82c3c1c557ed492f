//! Times, as `3 min ago`; `assets/app.js` updates them while the page is open.

use grove_model::Moment;
use maud::{Markup, html};

pub fn render_ago(moment: Moment) -> Markup {
    let now = Moment::now();
    html! {
        time datetime=(moment) title=(moment) data-ago {
            @if now.duration_since(moment).as_secs() < 10 { "just now" } @else { (now.age_since(moment)) " ago" }
        }
    }
}
