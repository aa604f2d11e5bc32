//! The playground, embedded.

use std::{borrow::Cow, sync::Arc};

use axum::{
    extract::{Path, State},
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};

use crate::app::App;

macro_rules! files {
    ($($name:literal),+ $(,)?) => {
        /// Every file of the page.
        pub(crate) const FILES: &[(&str, &[u8])] =
            &[$(($name, include_bytes!(concat!("../../../../web/", $name)))),+];
    };
}

files!(
    "index.html",
    "style.css",
    "dom.js",
    "form.js",
    "history.js",
    "keep.js",
    "main.js",
    "reading.js",
    "request.js",
    "results.js",
    "run.js",
    "stream.js",
    "take.js",
    "text.js",
    "theme.js",
    "tree.js",
);

/// What the page links to: the documentation's pages about itself and about the server, as they are written.
const DOCS: &[(&str, &[u8])] = &[
    ("page.md", include_bytes!("../../../../docs/page.md")),
    ("server.md", include_bytes!("../../../../docs/server.md")),
];

pub(crate) async fn index(state: State<Arc<App>>) -> Response {
    file(state, Path("index.html".into())).await
}

pub(crate) async fn file(State(app): State<Arc<App>>, Path(name): Path<String>) -> Response {
    let Some(&(name, embedded)) = FILES.iter().chain(DOCS).find(|(known, _)| *known == name) else {
        return crate::router::no_route(&format!("/{name}")).into_response();
    };
    let own = app.options.page.as_ref().filter(|_| !name.ends_with(".md"));
    let content = match own {
        None => Cow::Borrowed(embedded),
        Some(folder) => {
            let path = folder.join(name);
            match tokio::task::spawn_blocking(move || std::fs::read(path)).await {
                Ok(Ok(content)) => Cow::Owned(content),
                _ => return crate::router::no_route(&format!("/{name}")).into_response(),
            }
        }
    };
    let kind = match name.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        // Browsers show this one.
        Some("md") => "text/plain; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        _ => "text/javascript; charset=utf-8",
    };
    let headers = [
        (header::CONTENT_TYPE, kind),
        // A new server brings a new page.
        (header::CACHE_CONTROL, "no-cache"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    (StatusCode::OK, headers, content).into_response()
}
