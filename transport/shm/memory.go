package shm

// Memory is a directory for shared memory (DefaultDir, or Config.Dir), of all users and groups with a fabric there.
type Memory struct {
	Bytes int64 // capacity of its file system; 0: there is no limit
	Free  int64 // bytes
	// Places are the directories of users and groups, and of the fabrics in them, as far as this user can read them.
	Places []Place
}

// Place is a directory of a user or a group, or a fabric in it.
type Place struct {
	Path   string
	User   int    // user id of its owner
	Mine   bool   // used by this user's endpoints without Config.Group
	Fabric bool   // a fabric, not the directory of fabrics
	Wrong  string // why endpoints refuse to use it, such as "is not a directory"; empty: they accept it
	Left   bool   // a fabric with files of dead endpoints only
	Bytes  int64  // memory of the files of a fabric
}
