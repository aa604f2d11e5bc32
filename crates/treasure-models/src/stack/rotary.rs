//! Rotary position embedding on halves (i, i + n/2), one table for every model that uses it.
//! Angles are `position · inverse frequency` in f32, as in the reference implementations.

use std::sync::{Arc, Mutex, PoisonError};

/// Cosines and sines for positions from 0 on: per position, all cosines, then all sines.
#[derive(Debug)]
pub struct RotaryTable {
    half: usize,
    values: Vec<f32>,
}

impl RotaryTable {
    /// The cosines and sines of a position.
    pub fn at(&self, position: usize) -> (&[f32], &[f32]) {
        self.values[position * 2 * self.half..][..2 * self.half].split_at(self.half)
    }

    fn positions(&self) -> usize {
        self.values.len() / (2 * self.half).max(1)
    }
}

/// Inverse frequencies; a head of dimension `d` is rotated in its first `2 · frequencies` components.
#[derive(Debug)]
pub struct Rotary {
    inverse_frequencies: Vec<f32>,
    table: Mutex<Arc<RotaryTable>>,
}

/// The `llama3` rule for stretching rotary frequencies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Llama3Scaling {
    /// Long wavelengths are stretched by this.
    pub factor: f32,
    /// Wavelengths above `original_max_positions / low_freq_factor` are long.
    pub low_freq_factor: f32,
    /// Wavelengths below `original_max_positions / high_freq_factor` stay.
    pub high_freq_factor: f32,
    /// The context length before stretching.
    pub original_max_positions: f32,
}

impl Rotary {
    /// From inverse frequencies as a checkpoint stores them.
    pub fn from_inverse_frequencies(inverse_frequencies: Vec<f32>) -> Self {
        let empty = RotaryTable { half: inverse_frequencies.len(), values: Vec::new() };
        Self { inverse_frequencies, table: Mutex::new(Arc::new(empty)) }
    }

    /// `theta^(−2i/dim)` for `i` in `0..dim/2`.
    pub fn new(dim: usize, theta: f64) -> Self {
        Self::from_inverse_frequencies(frequencies(dim, theta))
    }

    /// As [`Rotary::new`], stretched by the `llama3` rule.
    pub fn llama3(dim: usize, theta: f64, scaling: Llama3Scaling) -> Self {
        let Llama3Scaling { factor, low_freq_factor, high_freq_factor, original_max_positions } =
            scaling;
        let stretch = |frequency: f32| {
            let wavelength = 2.0 * std::f32::consts::PI / frequency;
            if wavelength < original_max_positions / high_freq_factor {
                frequency
            } else if wavelength > original_max_positions / low_freq_factor {
                frequency / factor
            } else {
                let smooth = (original_max_positions / wavelength - low_freq_factor)
                    / (high_freq_factor - low_freq_factor);
                (1.0 - smooth) * frequency / factor + smooth * frequency
            }
        };
        Self::from_inverse_frequencies(frequencies(dim, theta).into_iter().map(stretch).collect())
    }

    /// How many pairs are rotated.
    pub fn half(&self) -> usize {
        self.inverse_frequencies.len()
    }

    /// The inverse frequencies.
    pub fn inverse_frequencies(&self) -> &[f32] {
        &self.inverse_frequencies
    }

    /// A table for at least `positions` positions; grows by doubling and is shared afterwards.
    pub fn table(&self, positions: usize) -> Arc<RotaryTable> {
        let mut shared = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        if shared.positions() < positions {
            let count = positions.next_power_of_two();
            let half = self.half();
            let mut values = Vec::with_capacity(count * 2 * half);
            for position in 0..count {
                let angles =
                    self.inverse_frequencies.iter().map(|f| f64::from(position as f32 * f));
                values.extend(angles.clone().map(|a| a.cos() as f32));
                values.extend(angles.map(|a| a.sin() as f32));
            }
            *shared = Arc::new(RotaryTable { half, values });
        }
        Arc::clone(&shared)
    }
}

fn frequencies(dim: usize, theta: f64) -> Vec<f32> {
    (0..dim / 2).map(|i| theta.powf(-((2 * i) as f64) / dim as f64) as f32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_holds_the_cosine_and_sine_of_position_times_frequency() {
        let rotary = Rotary::new(8, 10000.0);
        let (cos, sin) = (rotary.table(3), rotary.table(40));
        assert_eq!(cos.at(2).0, sin.at(2).0);
        let angle = 37.0f32 * rotary.inverse_frequencies()[1];
        assert!((sin.at(37).1[1] - angle.sin()).abs() < 1e-6);
        assert!((rotary.inverse_frequencies()[1] - 0.1).abs() < 1e-7);
    }

    #[test]
    fn llama3_scaling_keeps_short_wavelengths_and_divides_long_ones() {
        let scaling = Llama3Scaling {
            factor: 8.0,
            low_freq_factor: 1.0,
            high_freq_factor: 4.0,
            original_max_positions: 32.0,
        };
        let (plain, scaled) = (Rotary::new(12, 10000.0), Rotary::llama3(12, 10000.0, scaling));
        let (plain, scaled) = (plain.inverse_frequencies(), scaled.inverse_frequencies());
        assert_eq!(plain[0], scaled[0]);
        assert_eq!(plain[5] / 8.0, scaled[5]);
    }
}
