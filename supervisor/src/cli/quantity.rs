//! Durations and limits as people write them.

use std::time::Duration;

/// `10s`, `1.5m`, `250ms`, `2h`, `1d`, `0`; a number without a unit is seconds.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let help = || format!("`{text}` is no duration: write a number and a unit, such as 10s, 250ms, 1.5m, 2h");
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let seconds = match unit.trim() {
        "us" => 1e-6,
        "ms" => 1e-3,
        "" | "s" | "sec" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return Err(help()),
    };
    let number: f64 = number.parse().map_err(|_| help())?;
    // A hundred years: anything above is a mistake, and sums with it must not overflow.
    match Duration::try_from_secs_f64(number * seconds) {
        Ok(duration) if duration <= Duration::from_secs(100 * 366 * 86_400) => Ok(duration),
        Ok(_) | Err(_) => Err(help()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_write_durations_in_many_ways() {
        for (text, millis) in
            [("10s", 10_000), ("250ms", 250), ("1.5m", 90_000), ("0", 0), ("2h", 7_200_000), ("3", 3000)]
        {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "s", "-1s", "1 fortnight", "1e9", "NaN", "inf", "1..2s", "99999999999d", ".", "１s"]
        {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
