// Package bench measures Fanfare beside baselines, in one run on one machine.
//
// Publisher and subscribers are processes of their own (package worker), and the contenders take turns (ours, raw,
// naive, ours, raw, naive, …), so that a machine that grows slower does so for all. What is reported are medians with
// their spread; a ratio is the median of the ratios of runs that were neighbours. Every run checks the order and the
// content of what it receives, and fails if anything is wrong.
package bench
