// Package freeze stops processes for any time by signals, and continues them.
package freeze
