//! Answers told while they form, as server-sent events.
//!
//! Guarantees: without `diffusing` chunks only ever append, and joined they are the answer; with it each
//! frame replaces the one before and the last has no masks; a stream ends with its `[DONE]` or with an
//! error; dropping it cancels the searches.

use std::{
    collections::VecDeque,
    convert::Infallible,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    body::Body,
    http::{HeaderValue, header},
    response::Response,
};
use bytes::Bytes;
use futures_util::stream;
use serde_json::{Map, Value, json};
use treasure::{
    Sample,
    core::{Event, TokenId},
};

use crate::{
    answer::{self, Envelope, Usage},
    app::App,
    ask::{Ask, Streaming},
    follow::{Snapshot, Told},
    mailbox::{Letter, Mailbox},
    pool::Ticket,
    refusal::Refusal,
    spell::{Spell, Spelt},
    stop,
};

/// Settled tokens that are held back: decoders look that far ahead.
const AHEAD: usize = 2;

/// What is known of one text of the answer.
struct Line {
    spell: Spell,
    start: Vec<Option<TokenId>>,
    /// What was sent, append-only.
    sent: String,
    begun: bool,
}

/// A streamed answer.
pub(crate) struct Teller {
    app: Arc<App>,
    ask: Arc<Ask>,
    how: Streaming,
    envelope: Envelope,
    mailbox: Arc<Mailbox>,
    /// Cancels the searches when the stream is dropped.
    _ticket: Ticket,
    lines: Vec<Line>,
    usage: Usage,
    left: usize,
    out: VecDeque<Bytes>,
    began: Instant,
    outcome: &'static str,
    frames: u64,
}

impl Teller {
    #[expect(clippy::too_many_arguments, reason = "each is a part of the one answer")]
    pub fn new(
        app: Arc<App>,
        ask: Arc<Ask>,
        how: Streaming,
        envelope: Envelope,
        mailbox: Arc<Mailbox>,
        ticket: Ticket,
        starts: Vec<(Spell, Vec<Option<TokenId>>)>,
        prompt_tokens: usize,
        began: Instant,
    ) -> Self {
        let line = |(spell, start)| Line { spell, start, sent: String::new(), begun: false };
        Self {
            app,
            how,
            envelope,
            mailbox,
            _ticket: ticket,
            left: starts.len(),
            lines: starts.into_iter().map(line).collect(),
            usage: Usage { prompt: prompt_tokens, completion: 0 },
            ask,
            out: VecDeque::new(),
            began,
            outcome: "left",
            frames: 0,
        }
    }

    /// The answer as a response.
    pub fn into_response(self) -> Response {
        let told = stream::unfold(self, |mut teller| async move {
            let bytes = teller.next().await?;
            Some((Ok::<_, Infallible>(bytes), teller))
        });
        let mut response = Response::new(Body::from_stream(told));
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("text/event-stream; charset=utf-8"),
        );
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        // A proxy that gathers frames would show none of them.
        headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
        response
    }

    async fn next(&mut self) -> Option<Bytes> {
        let silence = Duration::from_secs_f64(self.app.options.silence_seconds);
        loop {
            if let Some(bytes) = self.out.pop_front() {
                return Some(bytes);
            }
            if self.left == 0 {
                return None;
            }
            match tokio::time::timeout(silence, self.mailbox.next()).await {
                Err(_) => return Some(Bytes::from_static(b": still here\n\n")),
                Ok((search, letter)) => self.tell(search, letter),
            }
        }
    }

    fn tell(&mut self, search: usize, letter: Letter) {
        match letter {
            Letter::Frame(frame) => self.frame(search, frame),
            Letter::Settled(tokens) => self.settled(search, &tokens),
            Letter::Done(sample, last) => self.done(search, &sample, last),
            Letter::Failed(refusal) => self.fail(&refusal),
        }
    }

    fn event(&mut self, value: &Value) {
        self.out.push_back(Bytes::from(format!("data: {value}\n\n")));
    }

    fn chunk(&mut self, choices: Vec<Value>, more: impl FnOnce(&mut Map<String, Value>)) {
        let mut chunk = self.envelope.around(choices, true);
        more(&mut chunk);
        self.event(&chunk.into());
    }

    /// Sends more of a text.
    fn append(&mut self, search: usize, text: &str) {
        let line = &mut self.lines[search];
        let first = !std::mem::replace(&mut line.begun, true);
        line.sent.push_str(text);
        let choice = answer::piece(self.ask.api, search, Some(text), first, None);
        self.chunk(vec![choice], |_| {});
    }

    fn settled(&mut self, search: usize, tokens: &[TokenId]) {
        let line = &mut self.lines[search];
        let text = line.spell.beginning(&line.start, &tokens[..tokens.len().saturating_sub(AHEAD)]);
        let safe = stop::safe(&text, &self.ask.stop);
        if let Some(more) = text[..safe].strip_prefix(line.sent.as_str())
            && !more.is_empty()
        {
            let more = more.to_owned();
            self.append(search, &more);
        }
    }

    fn frame(&mut self, search: usize, frame: Snapshot) {
        if self.frames == 0 {
            self.app.metrics.first_frame(self.began.elapsed().as_secs_f64());
        }
        self.frames += 1;
        self.app.metrics.frame();
        let line = &mut self.lines[search];
        let spelt = line.spell.spell(&frame.slots);
        let text = line.spell.text(&spelt, self.ask.shown);
        let first = !std::mem::replace(&mut line.begun, true);
        let choice = answer::piece(self.ask.api, search, Some(&text), first, None);
        self.picture(search, choice, &spelt, frame);
    }

    /// A frame around a choice.
    fn picture(&mut self, search: usize, choice: Value, spelt: &[Spelt], frame: Snapshot) {
        let meta = json!({
            "diffusion_content": true,
            "step": frame.step,
            "steps": frame.steps,
            "masks_left": frame.masks_left,
            "nfe": frame.nfe,
            "reward_calls": frame.reward_calls,
            "value": frame.value,
            "reward": frame.reward,
        });
        let spell = &self.lines[search].spell;
        let traced = self.how.trace.then(|| {
            let events: Vec<Value> =
                frame.events.into_iter().map(|told| event(spell, told)).collect();
            json!({"tokens": tokens(spelt, &frame.p), "node": frame.node, "events": events})
        });
        self.chunk(vec![choice], |chunk| {
            chunk.insert("diffusion_meta".into(), meta);
            if let Some(traced) = traced {
                chunk.insert("treasure".into(), traced);
            }
        });
    }

    fn done(&mut self, search: usize, sample: &Sample, last: Option<Snapshot>) {
        self.usage.completion += sample.tokens.len();
        self.left -= 1;
        let finished = answer::finish(&self.ask, sample);
        let (api, reason) = (self.ask.api, Some(finished.reason));
        let mut closing = match (self.how.diffusing, last) {
            (true, Some(last)) => {
                let line = &mut self.lines[search];
                let spelt = line.spell.spell(&last.slots);
                let first = !std::mem::replace(&mut line.begun, true);
                let mut choice = answer::piece(api, search, Some(&finished.text), first, reason);
                choice["treasure"] = finished.treasure;
                self.picture(search, choice, &spelt, last);
                None
            }
            _ => {
                let Some(more) = finished.text.strip_prefix(self.lines[search].sent.as_str())
                else {
                    let message = "the text changed where it had been sent";
                    return self.fail(&Refusal::internal(message));
                };
                if !more.is_empty() || !self.lines[search].begun {
                    self.append(search, more);
                }
                let mut choice = answer::piece(api, search, None, false, reason);
                choice["treasure"] = finished.treasure;
                Some(choice)
            }
        };
        let usage = self.usage.to_value();
        let last = self.left == 0;
        if let Some(choice) = closing.take() {
            let usage = (last && !self.how.usage_apart).then(|| usage.clone());
            self.chunk(vec![choice], |chunk| {
                if let Some(usage) = usage {
                    chunk.insert("usage".into(), usage);
                }
            });
        }
        if last {
            if self.how.usage_apart || self.how.diffusing {
                self.chunk(Vec::new(), |chunk| {
                    chunk.insert("usage".into(), usage);
                });
            }
            self.out.push_back(Bytes::from_static(b"data: [DONE]\n\n"));
            self.outcome = "done";
        }
    }

    fn fail(&mut self, refusal: &Refusal) {
        self.event(&refusal.to_value());
        (self.left, self.outcome) = (0, "failed");
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        let missed = self.mailbox.dropped();
        self.app.metrics.missed(missed);
        self.app.log.say(
            "stream",
            json!({
                "id": self.envelope.id,
                "outcome": self.outcome,
                "frames": self.frames,
                "frames_missed": missed,
                "completion_tokens": self.usage.completion,
                "seconds": self.began.elapsed().as_secs_f64(),
            }),
        );
    }
}

/// The text by position, as the page reads it.
fn tokens(spelt: &[Spelt], p: &[Option<f64>]) -> Vec<Value> {
    let sure = |at: usize| p.get(at).copied().flatten();
    let written = |at: usize, text: &str, end: bool| {
        let mut token = Map::from_iter([("text".to_owned(), Value::from(text))]);
        match sure(at) {
            Some(p) => token.insert("p".into(), p.into()),
            // Who wrote it is known, how sure of it is not.
            None => token.insert("written".into(), true.into()),
        };
        if end {
            token.insert("end".into(), true.into());
        }
        Value::Object(token)
    };
    let value = |(at, spelt): (usize, &Spelt)| match spelt {
        Spelt::Mask => Value::Null,
        Spelt::Given(text) => json!({"text": text}),
        Spelt::Written(text) => written(at, text, false),
        Spelt::End => written(at, "", true),
        Spelt::Behind => json!({"text": ""}),
    };
    spelt.iter().enumerate().map(value).collect()
}

/// A line of the trace, with what its tokens read as.
fn event(spell: &Spell, told: Told) -> Value {
    let mut line = serde_json::to_value(&told.event).unwrap_or_default();
    if let (Event::Node(node), Some(fields)) = (&told.event, line.as_object_mut()) {
        if let Some(token) = node.token {
            let text = if spell.is_end(token) { String::new() } else { spell.token(token) };
            fields.insert("text".into(), text.into());
            fields.insert("p".into(), told.p.into());
        }
        if !node.also.is_empty() {
            let also = node.also.iter().map(|&(at, token)| json!([at, token, spell.token(token)]));
            fields.insert("also".into(), also.collect());
        }
    }
    line
}
