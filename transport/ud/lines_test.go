package ud_test

import "github.com/fanfaremq/fanfare/internal/report"

// Every line that a test of this package makes the log write has the attributes that it should.
func init() {
	report.Undeclared = func(l *report.Line, attr string) {
		panic("the line " + l.Text + " is wrong about its attribute " + attr)
	}
}
