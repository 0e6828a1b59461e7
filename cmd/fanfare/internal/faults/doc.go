// Package faults makes each fault that an operator may meet, and looks whether it is named:
// by the right cause in metrics, by an event, by a line of the log, and in the record of
// losses. Whatever shows a bus to people is a view of the table in its test.
package faults
