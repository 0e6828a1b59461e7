package testenv

import (
	"flag"
	"testing"
)

// RunParallel runs the tests of a package, up to eight of those at once that are marked parallel, for these wait
// most of the time; go test's own default is one for each processor. -parallel says otherwise.
func RunParallel(m *testing.M) int {
	flag.Parse()
	isSet := false
	flag.Visit(func(f *flag.Flag) { isSet = isSet || f.Name == "test.parallel" })
	if !isSet {
		if err := flag.Set("test.parallel", "8"); err != nil {
			panic(err)
		}
	}
	return m.Run()
}
