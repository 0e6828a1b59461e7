package grace

import "testing"

func TestPeriod(t *testing.T) {
	var in, out, again Section
	in.Enter()
	again.Enter()
	var p Period
	for _, s := range []*Section{&in, &out, &again} {
		p.Add(s)
	}
	if p.Over() {
		t.Fatal("ended while two are inside")
	}
	again.Exit()
	again.Enter() // inside again: this does not delay the period
	if p.Over() {
		t.Fatal("ended while one is inside")
	}
	in.Exit()
	for range 2 {
		if !p.Over() {
			t.Fatal("not ended although all have left")
		}
	}
	var zero Period
	if !zero.Over() {
		t.Fatal("a period without sections has not ended")
	}
}
