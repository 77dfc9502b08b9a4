// Stacks of Rust: the first argument says which, "wait" as the second that it stops there instead of crashing.
use std::thread;
use std::time::Duration;

fn rest() -> u32 {
    loop {
        thread::sleep(Duration::from_secs(1000));
    }
}

#[inline(never)]
fn deep(n: u32, call: &dyn Fn() -> u32) -> u32 {
    if n == 0 { call() } else { deep(n - 1, call) + std::hint::black_box(1) }
}

struct Ends;

impl Drop for Ends {
    fn drop(&mut self) {
        if thread::panicking() {
            ends();
        }
    }
}

fn ends() -> u32 {
    if std::env::args().count() > 2 { rest() } else { std::process::abort() }
}

fn main() {
    thread::spawn(|| deep(3, &rest));
    thread::sleep(Duration::from_millis(50));
    match std::env::args().nth(1).unwrap().as_str() {
        "panic" => {
            let held = Ends;
            deep(4, &|| panic!("on purpose"));
            drop(held);
        }
        "sort" => {
            let mut numbers = vec![3, 1, 2, 9, 4];
            numbers.sort_by(|a, b| {
                deep(2, &ends);
                a.cmp(b)
            });
        }
        _ => {
            deep(5, &ends);
        }
    }
}
