package shm

// Memory is a directory for shared memory (DefaultDir, or Config.Dir), of all users and groups with a fabric there.
type Memory struct {
	Bytes int64 // what its file system may hold; 0: there is no limit
	Free  int64 // bytes
	// Places are those of users and groups, and the fabrics in them, as far as this user may look.
	Places []Place
}

// Place is a directory of a user or a group, or a fabric in it.
type Place struct {
	Path   string
	User   int    // its owner
	Mine   bool   // it is where this user's endpoints go, without Config.Group
	Fabric bool   // and not the directory of fabrics
	Wrong  string // why endpoints refuse to use it, such as "is no directory"; empty: they do not
	Left   bool   // a fabric with files of endpoints, of which none lives
	Bytes  int64  // of memory that the files of a fabric have
}
