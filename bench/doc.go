// Package bench compares Fanfare with baselines, in one run on one machine.
//
// Publisher and subscribers are separate processes (package worker), and the contenders take turns
// (ours, raw, naive, ours, raw, naive, …), so that a machine that becomes slower does so for all.
// Results are medians with their spread; a ratio is the median of the ratios of neighbouring runs.
// Every run checks the order and the content of received messages, and fails if anything is wrong.
package bench
