//! A result does not depend on who else asks.

use serde_json::{Value, json};
use treasure::{Job, Plan, Request, Watch};

use crate::{call::complete, toy};

fn asked(index: u64) -> (Value, Request) {
    let methods = ["treasure", "bon", "fk", "fhs", "svdd", "base", "greedy", "naive-tree"];
    let reward = ["contains:dog,cat", "distinct:2 + 0.5*length:4..9"][index as usize % 2];
    let method = methods[index as usize % methods.len()];
    let own = json!({"reward": reward, "method": method});
    let mut request = own.clone();
    let all = json!({"model": "own", "length": 14, "seed": index, "max_seconds": 120.0});
    request.as_object_mut().unwrap().extend(all.as_object().unwrap().clone());
    let body = json!({"prompt": format!("the {}", ["dog", "cat", "old ball"][index as usize % 3]),
        "max_tokens": 14, "seed": index, "treasure": own});
    (body, Request::from_value(request).unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_at_once_get_what_each_would_get_alone() {
    let app = toy::app(toy::options());
    let session = toy::session();
    for round in 0..3 {
        let tasks: Vec<_> = (0..8)
            .map(|index| {
                let (app, index) = (app.clone(), round * 8 + index);
                tokio::spawn(async move { complete(&app, asked(index).0).await })
            })
            .collect();
        for (index, task) in (round * 8..).zip(tasks) {
            let (body, request) = asked(index);
            let got = task.await.unwrap().ok();
            let prompt = body["prompt"].as_str().unwrap().to_owned();
            let job = Job { prompt, ..Job::default() };
            let alone = session.run(&Plan::new(&request).unwrap(), &job, Watch::default()).unwrap();
            let mut alone = serde_json::to_value(&alone).unwrap();
            let mut mine = got["choices"][0]["treasure"].clone();
            assert_eq!(got["choices"][0]["text"], alone["continuation"], "{body}");
            for sample in [&mut alone, &mut mine] {
                sample["cost"].as_object_mut().unwrap().remove("seconds");
            }
            for (name, value) in mine.as_object().unwrap() {
                assert_eq!(value, &alone[name], "{name} of {body}");
            }
        }
    }
    // They did share forward passes.
    let metrics = crate::call::get(&app, "/metrics").await.text();
    let number = |name: &str| -> f64 {
        let line = metrics.lines().find(|line| line.starts_with(name)).unwrap();
        line.rsplit(' ').next().unwrap().parse().unwrap()
    };
    assert!(
        number("treasure_batched_requests_total") > number("treasure_batches_total"),
        "{metrics}"
    );
}
