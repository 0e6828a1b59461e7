package pubsub

import "github.com/fanfaremq/fanfare/internal/report"

// Every log line written in tests of this package must have its declared attributes.
func init() {
	report.Undeclared = func(l *report.Line, attr string) {
		panic("the line " + l.Text + " is wrong about its attribute " + attr)
	}
}
