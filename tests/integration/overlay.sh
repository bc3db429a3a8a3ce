# Lays .debs/root over this machine, in the mount namespace of this process only, and runs a program in it.
# Usage: unshare -m sh overlay.sh DEBS FOLDER PROGRAM [ARGUMENT...]
#
# FOLDER/etc, if it is there, is laid over /etc too. What programs write to /etc, /run and /var/spool is gone
# with the namespace. Root's home is FOLDER there, and its shell bash, whatever the machine has.
set -eu
folder=$2
mount --make-rprivate /
cd "$1"
mkdir -p "$folder/mount"
mount -t tmpfs none "$folder/mount"
mount -t overlay none -o lowerdir=root/usr:/usr /usr
for part in etc run var/spool; do
    lower=/$part
    [ ! -d "root/$part" ] || lower=root/$part:/$part
    upper=$folder/mount/$part/upper work=$folder/mount/$part/work
    mkdir -p "$upper" "$work"
    mount -t overlay none -o "lowerdir=$lower,upperdir=$upper,workdir=$work" "/$part"
done
mkdir -p /run/sshd /run/sudo
{
    printf 'root:x:0:0:root:%s:/bin/bash\n' "$folder"
    printf 'sshd:x:65533:65534::/run/sshd:/bin/false\n'
    grep -v -e '^root:' -e '^sshd:' /etc/passwd
} >"$folder/mount/passwd"
printf 'root:*:19000:0:99999:7:::\n' >/etc/shadow
cat "$folder/mount/passwd" >/etc/passwd
[ ! -d "$folder/etc" ] || cp -R "$folder/etc/." /etc
/sbin/ldconfig
cd /
shift 2
exec "$@"
