//! Listening, and ending well.
//!
//! Guarantees: a client that sends nothing, or reads nothing, is let go after a while; once told to
//! stop, the server takes no new work, finishes or cuts short what it has, answers it, and returns.

use std::{convert::Infallible, net::SocketAddr, pin::pin, sync::Arc, time::Duration};

use axum::{Router, body::Body, http::Request};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
};
use serde_json::json;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};
use tokio_io_timeout::TimeoutStream;
use tower::ServiceExt as _;
use treasure::{Error, ErrorKind, Result, Session};

use crate::{App, ServeOptions, router, watch::Peer};

/// How long the head of a request may take.
const HEAD: Duration = Duration::from_secs(20);
/// How long a client may read nothing.
const UNREAD: Duration = Duration::from_secs(60);
/// Connections at once.
const CONNECTIONS: usize = 2_048;
/// How long connections have to end after the last answer.
const FAREWELL: Duration = Duration::from_secs(5);

/// A server that listens and has not begun to answer.
pub struct Server {
    app: Arc<App>,
    listener: TcpListener,
    address: SocketAddr,
}

impl Server {
    /// Takes the address.
    pub async fn bind(app: Arc<App>) -> Result<Self> {
        let (host, port) = (app.options.host.as_str(), app.options.port);
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let listener = TcpListener::bind((bare, port)).await.map_err(|error| {
            Error::from(error)
                .context(format!("cannot listen at {host}:{port}"))
                .with_hint("choose another port, or 0 for any that is free")
        })?;
        let address = listener.local_addr()?;
        Ok(Self { app, listener, address })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Loads the models, answers until `stop`, then drains. A second `stop` ends the draining early.
    pub async fn run<F: Future<Output = ()>>(self, stop: impl Fn() -> F) -> Result<()> {
        let Self { app, listener, address } = self;
        app.log.say("listening", json!({"address": address.to_string()}));
        let loading = {
            let app = app.clone();
            tokio::task::spawn_blocking(move || app.load())
        };
        let graceful = GracefulShutdown::new();
        let routes = router(app.clone());
        {
            let mut accepting = pin!(accept(&listener, &routes, &graceful));
            let mut loading = pin!(loading);
            let mut stopped = pin!(stop());
            let mut loaded = false;
            loop {
                tokio::select! {
                    never = &mut accepting => match never {},
                    done = &mut loading, if !loaded => {
                        loaded = true;
                        done.map_err(|_| Error::new(ErrorKind::Model, "loading the models panicked"))??;
                        app.log.say("ready", json!({"models": app.models().len()}));
                    }
                    () = &mut stopped => break,
                }
            }
            // While work ends, newcomers are still told why there is none for them.
            let mut again = pin!(stop());
            tokio::select! {
                never = &mut accepting => match never {},
                _ = app.drain() => {}
                () = &mut again => app.pool.cancel_all(),
            }
        }
        drop(listener);
        let ended = tokio::time::timeout(FAREWELL, graceful.shutdown()).await.is_ok();
        app.log.say("stopped", json!({"clean": ended}));
        app.log.flush();
        Ok(())
    }
}

/// Takes connections until it is dropped.
async fn accept(
    listener: &TcpListener,
    routes: &Router,
    graceful: &GracefulShutdown,
) -> Infallible {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(place) = room.clone().acquire_owned().await else { continue };
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(_) => {
                // Out of descriptors, most likely: those in use will come back.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let connection = graceful.watch(connection(stream, peer, routes.clone()));
        tokio::spawn(async move {
            // A client that misbehaves or leaves is no news.
            let _ = connection.await;
            drop(place);
        });
    }
}

fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    routes: Router,
) -> impl hyper_util::server::graceful::GracefulConnection<Error = hyper::Error> {
    // Frames are small and should come at once.
    let _ = stream.set_nodelay(true);
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(UNREAD));
    let answer = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(Peer(peer.ip()));
        routes.clone().oneshot(request.map(Body::new))
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .serve_connection(TokioIo::new(Box::pin(stream)), answer)
}

/// Waits for a signal to stop: SIGTERM, or Ctrl-C.
async fn signal() {
    let interrupt = async {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    #[cfg(unix)]
    let terminate = async {
        match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
            Ok(mut signal) => {
                signal.recv().await;
            }
            Err(_) => std::future::pending().await,
        }
    };
    #[cfg(not(unix))]
    let terminate = std::future::pending::<()>();
    tokio::select! {
        () = interrupt => {}
        () = terminate => {}
    }
}

/// Serves a session until SIGTERM or Ctrl-C. `listening` is told the address once it is taken.
pub async fn serve(
    options: ServeOptions,
    session: &Session,
    listening: impl FnOnce(SocketAddr),
) -> Result<()> {
    let server = Server::bind(App::new(options, session)?).await?;
    listening(server.address());
    server.run(signal).await
}

/// [`serve`] for programs without a runtime of their own.
pub fn serve_blocking(
    options: ServeOptions,
    session: &Session,
    listening: impl FnOnce(SocketAddr),
) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("http")
        .enable_all()
        .build()?;
    let served = runtime.block_on(serve(options, session, listening));
    // A reward that hangs must not keep the process.
    runtime.shutdown_timeout(Duration::from_secs(1));
    served
}
