package engine

import "github.com/fanfaremq/fanfare/internal/report"

// Every line that the tests of this package log must have only its declared attributes.
func init() {
	report.Undeclared = func(l *report.Line, attr string) {
		panic("the line " + l.Text + " has the undeclared attribute " + attr)
	}
}
