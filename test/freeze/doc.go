// Package freeze stops processes for as long as one likes, by signals, and has them go on.
package freeze
