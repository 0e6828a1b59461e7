// Package discovery exchanges hellos between buses. With them a bus finds and reports others on the same addresses that
// are configured differently, so that neither receives the other's packets (docs/protocol §14). Time, randomness and
// packets are its only input, packets and reports its only output.
//
// A Greeter joins four parts:
//
//	                  ┌──────────────┐ a hello is due
//	Publishes, Hurry ►│ helloSchedule├──────────────►┐
//	                  └──────────────┘               │
//	                  ┌──────────────┐ one is due    ▼
//	Hello ───────────►│ answers      ├─────────────► Next ─► group 0, or one peer
//	  │               └──────────────┘
//	  │               ┌──────────────┐
//	Heartbeat ───────►│ reports      ├─► Bus.Mismatch, once per bus
//	                  └──────────────┘
//	                  ┌──────────────┐
//	Wants, Tick ─────►│ search       ├─► Searching: join group 0 briefly
//	                  └──────────────┘
//
// Read greeter.go first, then schedule.go, search.go, answers.go, reports.go and mismatch.go.
package discovery
