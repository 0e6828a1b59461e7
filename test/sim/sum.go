package sim

import "reflect"

// addFields adds the counters of x to those of sum: all fields are uint64, or structs of uint64.
func addFields[T any](sum, x *T) { addValues(reflect.ValueOf(sum).Elem(), reflect.ValueOf(x).Elem()) }

func addValues(sum, x reflect.Value) {
	for i := range sum.NumField() {
		if f := sum.Field(i); f.Kind() == reflect.Struct {
			addValues(f, x.Field(i))
		} else {
			f.SetUint(f.Uint() + x.Field(i).Uint())
		}
	}
}
