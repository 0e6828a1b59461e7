// Package shm tests buses of several processes over shared memory: any of them may be killed
// at any moment, and they may be of different users.
package shm
