package ud_test

import "github.com/fanfaremq/fanfare/internal/report"

// Every log line that a test of this package causes must have its declared attributes.
func init() {
	report.Undeclared = func(l *report.Line, attr string) {
		panic("the log line " + l.Text + " does not declare its attribute " + attr)
	}
}
