-- Nobody but the owner writes, except through what is granted.
revoke all on function append_v3 from public;
revoke all on function retag_v2 from public;
