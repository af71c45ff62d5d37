"""A recorded window as torch shows it: events, their averages, tables, trees and totals, as views over the engine's
columns."""
