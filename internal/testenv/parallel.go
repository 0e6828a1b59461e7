package testenv

import (
	"flag"
	"testing"
)

// RunParallel runs the tests of a package, with up to eight parallel ones at once, because they mostly wait; the
// default of go test is one per processor. The flag -parallel overrides it.
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
