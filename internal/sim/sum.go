package sim

import "reflect"

// addFields adds the counters of x to those of sum: all fields are uint64.
func addFields[T any](sum, x *T) {
	a, b := reflect.ValueOf(sum).Elem(), reflect.ValueOf(x).Elem()
	for i := range a.NumField() {
		a.Field(i).SetUint(a.Field(i).Uint() + b.Field(i).Uint())
	}
}
