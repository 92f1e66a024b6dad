//! The report for people: three groups of lines, the verdict last. Pure.

use crate::features::{Finding, NeededFor, Report, State};

/// With or without colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// Text only.
    Plain,
    /// The states in ANSI colours.
    Coloured,
}

/// How to draw.
#[derive(Clone, Copy, Debug)]
pub(super) struct Table {
    pub(super) style: Style,
    /// Columns of the terminal, if there is one.
    pub(super) width: Option<usize>,
}

/// Columns of the first two fields, with the spaces behind them.
const NAME: usize = 20;
const STATE: usize = 10;
const INDENT: usize = 2;
/// Columns without a terminal, and the least and the most with one: longer lines are hard to read.
const WIDTH: usize = 90;
const WIDTH_MIN: usize = 60;
const WIDTH_MAX: usize = 100;

impl Table {
    pub(super) fn render(self, report: &Report) -> String {
        let mut text = format!("kernel {}\n", printable(&report.kernel));
        for needed_for in NeededFor::ALL {
            text.push_str(&format!("\n{}\n", title(needed_for)));
            for finding in report.findings.iter().filter(|one| one.feature.needed_for() == needed_for) {
                self.line(&mut text, finding);
            }
        }
        let verdict = report.verdict();
        text.push('\n');
        for line in wrap(&verdict, self.columns()) {
            text.push_str(&line);
            text.push('\n');
        }
        text
    }

    fn columns(self) -> usize {
        self.width.unwrap_or(WIDTH).clamp(WIDTH_MIN, WIDTH_MAX)
    }

    fn line(self, text: &mut String, finding: &Finding) {
        let Finding { feature, state, detail, advice } = finding;
        let room = self.columns() - INDENT - NAME - STATE;
        let mut lines = wrap(detail, room);
        if *state != State::Ok {
            lines.extend(wrap(&format!("cost: {}", feature.cost()), room));
        }
        if let Some(advice) = advice {
            lines.extend(wrap(&format!("do: {advice}"), room));
        }
        let mut lines = lines.into_iter();
        let first = lines.next().unwrap_or_default();
        let padding = " ".repeat(STATE - state.word().len());
        let word = self.painted(*state);
        text.push_str(format!("{:INDENT$}{:NAME$}{word}{padding}{first}", "", feature.name()).trim_end());
        text.push('\n');
        for line in lines {
            text.push_str(&format!("{:1$}{line}\n", "", INDENT + NAME + STATE));
        }
    }

    fn painted(self, state: State) -> String {
        let colour = match state {
            State::Ok => 32,
            State::Degraded => 33,
            State::Missing => 31,
            State::Unknown => 36,
        };
        match self.style {
            Style::Plain => state.word().to_owned(),
            Style::Coloured => format!("\x1b[{colour}m{}\x1b[0m", state.word()),
        }
    }
}

fn title(needed_for: NeededFor) -> &'static str {
    match needed_for {
        NeededFor::Tasks => "needed to run tasks",
        NeededFor::Audit => "needed to prove what they do",
        NeededFor::Comfort => "useful",
    }
}

/// Control characters made visible: paths and errors may hold any, and a terminal would obey them.
fn printable(text: &str) -> String {
    text.chars().fold(String::new(), |mut shown, c| {
        if c.is_control() {
            shown.extend(c.escape_default())
        } else {
            shown.push(c)
        }
        shown
    })
}

/// Breaks a text between words into lines of at most `width` characters; a longer word is broken too.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut used = 0;
    for word in printable(text).split(' ') {
        let mut rest: Vec<char> = word.chars().collect();
        if used > 0 && used + 1 + rest.len() <= width {
            line.push(' ');
            used += 1;
        } else if used > 0 {
            lines.push(std::mem::take(&mut line));
            used = 0;
        }
        while rest.len() > width {
            lines.push(rest.drain(..width).collect());
        }
        used += rest.len();
        line.extend(rest);
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::features::Feature;

    fn report() -> Report {
        let finding = |feature, state, detail: &str, advice: Option<&str>| Finding {
            feature,
            state,
            detail: detail.to_owned(),
            advice: advice.map(str::to_owned),
        };
        Report {
            kernel: "6.1.0".to_owned(),
            findings: vec![
                finding(Feature::Proc, State::Ok, "all processes can be seen", None),
                finding(Feature::CgroupWrite, State::Missing, "cannot: EACCES", Some("run as root")),
                finding(Feature::KernelBtf, State::Ok, "/sys/kernel/btf/vmlinux", None),
                finding(Feature::Bpffs, State::Missing, "not mounted", Some("mount it")),
            ],
        }
    }

    #[test]
    fn a_table_for_people() {
        let text = Table { style: Style::Plain, width: None }.render(&report());
        let expected = "\
kernel 6.1.0

needed to run tasks
  proc                ok        all processes can be seen
  cgroup-write        missing   cannot: EACCES
                                cost: no cgroup can be made for a task; no task can run
                                do: run as root

needed to prove what they do
  kernel-btf          ok        /sys/kernel/btf/vmlinux

useful
  bpffs               missing   not mounted
                                cost: the audit of the service has a gap when the daemon
                                restarts (`proctor run` needs none)
                                do: mount it

tasks cannot run: cgroup-write
";
        assert_eq!(text, expected);
    }

    #[test]
    fn colours_change_no_column() {
        let plain = Table { style: Style::Plain, width: None }.render(&report());
        let coloured = Table { style: Style::Coloured, width: None }.render(&report());
        assert!(coloured.contains("\x1b[31mmissing\x1b[0m   cannot"));
        let mut bare = coloured;
        for code in ["\x1b[31m", "\x1b[32m", "\x1b[0m"] {
            bare = bare.replace(code, "");
        }
        assert_eq!(bare, plain);
    }

    #[test]
    fn what_a_terminal_would_obey_is_shown_instead() {
        assert_eq!(wrap("a\x1b[2Jb\nc", 80), ["a\\u{1b}[2Jb\\nc"]);
    }

    #[test]
    fn words_longer_than_a_line_are_broken() {
        assert_eq!(wrap("ab cdefghij k", 4), ["ab", "cdef", "ghij", "k"]);
        assert_eq!(wrap("", 4), [""]);
    }

    proptest! {
        #[test]
        fn no_line_is_too_long_and_no_letter_is_lost(text in ".{0,200}", width in 1_usize..60) {
            let lines = wrap(&text, width);
            prop_assert!(lines.iter().all(|line| line.chars().count() <= width), "{lines:?}");
            let letters = |text: &str| text.chars().filter(|c| *c != ' ').collect::<String>();
            prop_assert_eq!(letters(&lines.concat()), letters(&printable(&text)));
        }

        #[test]
        fn any_terminal_is_fitted(columns in 0_usize..400) {
            let text = Table { style: Style::Plain, width: Some(columns) }.render(&report());
            let most = columns.clamp(WIDTH_MIN, WIDTH_MAX);
            prop_assert!(text.lines().all(|line| line.chars().count() <= most), "{text}");
        }
    }
}
