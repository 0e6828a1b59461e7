// Package faults produces each fault that an operator may meet, and checks that it is reported with the right cause:
// in metrics, events, log lines and the loss record. Tools that show a bus have the same table in their tests.
package faults
