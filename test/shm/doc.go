// Package shm tests buses of several processes over shared memory: any of them may be killed at any
// time, and they may belong to different users.
package shm
