// Package discovery exchanges hellos between buses: it lets a bus find others on the same addresses that are
// configured differently, so that neither receives the other's packets, and report them (docs/protocol §14).
// It is pure: time, randomness and packets come in, packets and reports come out.
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
//	Wants, Tick ─────►│ search       ├─► Searching: join group 0 for a moment
//	                  └──────────────┘
//
// Read greeter.go first, then schedule.go, search.go, answers.go, reports.go and mismatch.go.
package discovery
